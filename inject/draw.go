package inject

import (
	"firstbit/device"
	"firstbit/lowp"
	"firstbit/tune"
)

var drawKind = &kind{Name: "draw", noun: streamNoun, state: streamNoun, phase: tune.StepPhases, Example: "draw@rng.dropout.tp tp=0",
	does: "draws once from random streams, as a data iterator does, before the first Call of a phase, which is fwd of microbatch 0 unless others are given; " +
		"where a run continues, before or after they are restored",
	make: disturbing(drawOnce)}

var iteratorKernel = &device.Kernel{Name: "iterator", In: device.Names("stream"), Out: device.Names("value stream")}

func drawOnce(dev *device.Device, s stream) { drawFrom(dev.In("iterator"), s) }

// drawFrom is a draw that is none of training's.
func drawFrom(dev *device.Device, s stream) {
	c := dev.OpenKind(device.Draw, free(dev, s.Name), iteratorKernel)
	c.Read("stream", s.Tensor)
	value := c.Write("value", lowp.FP64, 1)
	c.Update("stream", s.Tensor)
	c.Body = func(*device.Call) { value.Set(0, draw(s.Tensor, 1)) }
	c.Do()
}
