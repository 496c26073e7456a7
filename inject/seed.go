package inject

import (
	"firstbit/device"
	"firstbit/lowp"
)

var seedKind = &kind{Name: "seed", noun: "random stream", restores: true, Example: "seed@rng.* when=after",
	does: "seeds random streams as at the run's beginning, before or after they are restored",
	make: func(s *Selector) (action, []field) {
		x := &seed{when{"after"}}
		s.Phase = device.Load
		return x, []field{x.field(), s.rank()}
	}}

// seed is a second seeding.
type seed struct{ when }

var seedKernel = &device.Kernel{Name: "seed", In: device.Names("stream"), Out: device.Names("before stream")}

func (*seed) disturb(dev *device.Device, s stream) {
	c := dev.In("seed").OpenKind(device.Loading, s.Name, seedKernel)
	c.Read("stream", s.Tensor)
	before := c.Write("before", lowp.INT32, s.Len())
	c.Update("stream", s.Tensor)
	c.Body = func(*device.Call) {
		before.CopyFrom(s.Tensor)
		s.CopyFrom(s.seeded)
	}
	c.Do()
}
