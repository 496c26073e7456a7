package inject

import (
	"firstbit/device"
	"firstbit/lowp"
)

var drawKind = &kind{Name: "draw", noun: "random stream", restores: true, Example: "draw@rng.dropout.tp when=after",
	does: "draws once from random streams, as a data iterator does that is built before or after they are restored",
	make: func(s *Selector) (action, []field) {
		x := &extra{when{"after"}}
		s.Phase = device.Load
		return x, []field{x.field(), s.rank()}
	}}

// extra is a draw that is none of training's.
type extra struct{ when }

var iteratorKernel = &device.Kernel{Name: "iterator", In: device.Names("stream"), Out: device.Names("value stream")}

func (*extra) disturb(dev *device.Device, s stream) {
	c := dev.In("iterator").OpenKind(device.Draw, s.Name, iteratorKernel)
	c.Read("stream", s.Tensor)
	value := c.Write("value", lowp.FP64, 1)
	c.Update("stream", s.Tensor)
	c.Body = func(*device.Call) { value.Set(0, draw(s.Tensor, 1)) }
	c.Do()
}
