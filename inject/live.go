package inject

import (
	"firstbit/device"
	"firstbit/nn"
	"firstbit/tune"
)

var liveKind = &kind{Name: "live", noun: "draw of a recomputation", phase: tune.StepPhases, Example: "live@*.dropout.mask",
	does: "recomputations draw masks from their stream as it stands, and move it on",
	make: func(*Selector) (action, []field) { return live{}, nil }}

// live is a recomputation that kept a handle on its stream where it should have kept a copy of the state.
type live struct{}

func (live) on(c *device.Call) bool { return c.Kind == device.Draw && c.ID.Phase == device.Rec }

// run draws as from the copy, and moves the stream on as the forward does: a mask takes a draw for each of its elements.
func (live) run(f *Fault, c *device.Call, next device.Runner) {
	before, stream := named(c.In, "before"), named(c.In, "stream")
	if before == nil || stream == nil {
		f.fail(c, "draws from no state that the forward kept")
		next(c)
		return
	}
	kept := same(before)
	before.CopyFrom(stream)
	next(c)
	before.CopyFrom(kept)
	draw(stream, c.Output("mask").Len())
	f.act(true)
}

// named is what any Call has under a name; nil: nothing.
func named(args []device.Arg, name string) *device.Tensor {
	for _, a := range args {
		if a.Name == name {
			return a.Tensor
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
