package inject

import (
	"firstbit/device"
	"firstbit/lowp"
	"firstbit/tune"
)

var seedKind = &kind{Name: "seed", noun: streamNoun, state: streamNoun, phase: tune.StepPhases, Example: "seed@rng.* step=2",
	does: "seeds random streams as at the run's beginning, before the first Call of a phase, which is fwd of microbatch 0 unless others are given; where a run continues, before or after they are restored",
	make: disturbing(seedAgain)}

var seedKernel = &device.Kernel{Name: "seed", In: device.Names("stream"), Out: device.Names("before stream")}

// seedAgain is a second seeding.
func seedAgain(dev *device.Device, s stream) {
	dev = dev.In("seed")
	kind := device.Draw
	if dev.Phase() == device.Load {
		kind = device.Loading
	}
	c := dev.OpenKind(kind, free(dev, s.Name), seedKernel)
	c.Read("stream", s.Tensor)
	before := c.Write("before", lowp.INT32, s.Len())
	c.Update("stream", s.Tensor)
	c.Body = func(*device.Call) {
		before.CopyFrom(s.Tensor)
		s.CopyFrom(s.seeded)
	}
	c.Do()
}
