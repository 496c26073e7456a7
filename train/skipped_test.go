package train

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/state"
)

// A step that fp16 skips moves the position in the data, the step and the routers' biases, and nothing else that decides; a step that is taken
// moves all but the trackers of the scale.
func TestWhatASkippedStepMoves(t *testing.T) {
	c := Tiny()
	c.Precision, c.Optim.LossScale.Initial = "fp16", 1<<21
	tr, err := newRun(c, device.New(device.Options{}))
	require.NoError(t, err)
	held := func() map[string]string {
		all := map[string]string{}
		for _, s := range tr.States(state.Role.Saved) {
			if s.Role != state.RouterTokens { // zero after every step
				all[s.Name] = string(s.Bytes(nil))
			}
		}
		return all
	}
	before, taken, skipped := held(), int64(0), 0
	for range 5 {
		if r := tr.Step(); r.Skipped {
			skipped++
		} else {
			taken++
		}
		after, moved := held(), map[state.Role]bool{}
		for _, s := range tr.States(state.Role.Saved) {
			if s.Name != stepState && before[s.Name] != after[s.Name] {
				moved[s.Role] = true
			}
		}
		delete(moved, state.LossScale)
		want := map[state.Role]bool{state.Iterator: true, state.RouterBias: true}
		if before[optimStepState] != after[optimStepState] {
			for _, r := range []state.Role{state.Weight, state.Master, state.FirstMoment, state.SecondMoment, state.Position, state.Counter} {
				want[r] = true
			}
		}
		require.Equal(t, want, moved)
		require.Equal(t, taken, tr.schedule.Position.Number())
		require.Equal(t, taken, int64(tr.updates))
		before = after
	}
	require.Positive(t, skipped)
	require.Positive(t, taken)
	require.Equal(t, 5, tr.step)
}

// Every loss goes through the scale: gradients of the language model, of multi-token prediction and of both losses of routers are the same
// by another scale, up to the rounding of fp16. One that did not would be 16 times another part of the sum.
func TestScaledGradients(t *testing.T) {
	gradients := func(scale float64) map[string][]float64 {
		c := Tiny()
		c.Precision, c.Optim.LossScale.Initial, c.Model.MoE.AuxCoeff, c.Model.MoE.ZCoeff = "fp16", scale, 1, 1
		tr, err := newRun(c, device.New(device.Options{}))
		require.NoError(t, err)
		tr.Step()
		all := map[string][]float64{}
		for _, s := range tr.States(func(r state.Role) bool { return r == state.Gradient }) {
			require.Equal(t, lowp.FP32, s.Format)
			all[s.Of] = values(s.Tensor)
		}
		return all
	}
	want, got := gradients(1<<12), gradients(1<<16)
	require.Len(t, got, len(want))
	for name, g := range want {
		require.Less(t, apart(t, g, got[name]), 1e-2, name)
	}
}
