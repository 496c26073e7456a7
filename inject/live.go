package inject

import (
	"firstbit/device"
	"firstbit/nn"
)

// live has a recomputation draw from its stream as it stands, and move it on, as one does that kept a handle on the stream where it should have
// kept a copy of its state. A mask takes a draw for each of its elements.
func (f *Fault) live(c *device.Call, next device.Runner) {
	before, stream := read(c, "before"), read(c, "stream")
	if before == nil || stream == nil {
		f.fail(c, "draws from no state that the forward kept")
		next(c)
		return
	}
	kept := device.NewTensor(before.Format, before.Len())
	kept.CopyFrom(before)
	before.CopyFrom(stream)
	next(c)
	before.CopyFrom(kept)
	draw(stream, c.Out[0].Len())
	f.act(true)
}

// read is an input of a Call; nil: it has none of that name.
func read(c *device.Call, name string) *device.Tensor {
	for _, in := range c.In {
		if in.Name == name {
			return in.Tensor
		}
	}
	return nil
}

// draw draws so many numbers from the stream whose state is in a tensor, and returns the last.
func draw(state *device.Tensor, n int) (x float64) {
	s := nn.ReadState("", state)
	for range n {
		x = s.Float64()
	}
	nn.WriteState(s, state)
	return x
}
