package route

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/parallel"
	"firstbit/run"
	"firstbit/train"
)

func tiny(precision string, steps int) run.Spec {
	c := train.Tiny()
	c.Precision, c.Steps = precision, steps
	return run.Spec{Config: c}
}

var lowest = Flip{Call: "layers.0.y", Step: 3, Elem: 100}

// The lowest bit of bf16 flips a route in the step after, by a margin that it moved; what is said of one token is so in the two runs.
func TestLowestBitFlipsARoute(t *testing.T) {
	r, err := Run(tiny("bf16", 5), lowest)
	require.NoError(t, err)
	require.NotNil(t, r.First)
	require.Greater(t, r.First.Step, lowest.Step)
	require.Greater(t, r.First.Moved, r.First.Margin, "a route flips where its margin moves by more than it is")
	require.NotEqual(t, r.First.Before, r.First.After)
	require.EqualValues(t, 1, r.Bits.Ulps)
	require.Equal(t, "layers.0.y", r.Spread().First().Name)
	sum := 0
	for i, s := range r.ByStep {
		sum += s.Flips
		require.Equal(t, s.Step < r.First.Step, s.Flips == 0, "the first step with a flip is the first route's")
		if s.Step > lowest.Step {
			require.Positive(t, s.Moved)
		}
		if s.Step < lowest.Step {
			require.Zero(t, s.Calls.Differs)
			require.Zero(t, s.Moved)
		}
		require.Equal(t, i+1, s.Step)
	}
	require.Equal(t, r.Flips, sum)
}

// The lowest bit of fp32 moves no margin far enough; its flip is there all the same.
func TestLowestBitOfFP32FlipsNone(t *testing.T) {
	r, err := Run(tiny("fp32", 5), lowest)
	require.NoError(t, err)
	require.Nil(t, r.First)
	require.Positive(t, r.ByStep[2].Calls.Differs)
}

// Ranks of a layout route their own tokens.
func TestRanks(t *testing.T) {
	s := tiny("bf16", 6)
	var err error
	s.Layout, err = parallel.ParseLayout("dp=2")
	require.NoError(t, err)
	f := lowest
	f.Rank = 1
	r, err := Run(s, f)
	require.NoError(t, err)
	require.Equal(t, 1, r.Spread().First().Rank)
	require.NotEmpty(t, r.ByRank)
}

func TestWhatCannotBeFlipped(t *testing.T) {
	for want, f := range map[string]Flip{
		"elem 4096: must be from 0 to 4095: y of layers.0.y is [128 32]":             {Call: "layers.0.y", Step: 1, Elem: 4096},
		"bit 16: must be from 0 to 15: y of layers.0.y is bf16":                      {Call: "layers.0.y", Step: 1, Bit: 16},
		"step 9: must be from 1 to 2, the steps of the run":                          {Call: "layers.0.y", Step: 9},
		"layers.2.moe.router.topk: writes int32: must be a Call that writes numbers": {Call: "layers.2.moe.router.topk", Step: 1},
		"rank 1: must be from 0 to 0, those of layout":                               {Call: "layers.0.y", Step: 1, Rank: 1},
		"no Call of that name": {Call: "layers.9.y", Step: 1},
	} {
		_, err := Run(tiny("bf16", 2), f)
		require.ErrorContains(t, err, want)
	}
	s, err := tiny("bf16", 2), error(nil)
	s.Layout, err = parallel.ParseLayout("pp=2")
	require.NoError(t, err)
	_, err = Run(s, Flip{Call: "layers.4.y", Step: 1})
	require.EqualError(t, err, "layers.4.y: rank 0 has no such Call: must be rank 1")
	s = tiny("bf16", 2)
	s.Config.Model.MoE.TopK, s.Config.Model.MoE.Experts = 64, 80
	_, err = Values(s, lowest, "experts")
	require.EqualError(t, err, "model.moe.top_k: 64: must be below 64, the most experts of a sweep")
}

// Where a token keeps some groups of experts its margin is within them.
func TestMarginWithinGroups(t *testing.T) {
	s := tiny("bf16", 4)
	s.Config.Model.MoE.Groups, s.Config.Model.MoE.GroupsKept = 4, 2
	r, err := Run(s, Flip{Call: "layers.0.y", Step: 2, Elem: 100, Bit: 5})
	require.NoError(t, err)
	require.NotNil(t, r.First)
	require.GreaterOrEqual(t, r.First.Kth, r.First.Left)
	text, err := json.Marshal(r.ByStep[0].Calls)
	require.NoError(t, err)
	require.Regexp(t, `^{"differs":0,"of":\d+}$`, string(text))
}

func TestSweeps(t *testing.T) {
	for what, want := range map[string]int{"bits": 16, "precisions": len(train.Precisions), "experts": 5, "layers": 5, "steps": 2} {
		n, err := Values(tiny("bf16", 3), lowest, what)
		require.NoError(t, err)
		require.Equal(t, want, n, what)
	}
	points, err := Sweep(tiny("bf16", 4), lowest, "experts", func() {})
	require.NoError(t, err)
	require.Less(t, points[0].Flips, points[4].Flips, "more experts, more flips")
	require.Greater(t, points[0].Margins.P01, points[4].Margins.P01)
}
