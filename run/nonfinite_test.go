package run

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/train"
)

// nanBias flips bits of element 1 of a router's bias, whose exponent is 76 (hex) after step 2, until it is a NaN. No metric ever shows it: the bias only decides.
func nanBias(more string) (faults []string) {
	for _, bit := range []int{30, 26, 23} {
		faults = append(faults, fmt.Sprintf("flip@layers.2.moe.router.bias phase=opt step=2%s elem=1 bit=%d", more, bit))
	}
	return faults
}

// The first NaN or infinity of a run is named with its Call, wherever it shows.
func TestNonFiniteIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		layout parallel.Layout
		real   bool
		faults []string
		want   string
	}{
		"nothing is wrong": {},
		"a metric shows it": {faults: []string{"flip@layers.2.norm phase=fwd step=2 out=y bit=30"},
			want: "+Inf first written by layers.2.moe.router.z_loss, fwd of step 2 microbatch 0: loss[0]"},
		"not of the rank it came to": {layout: parallel.Layout{PP: 2}, faults: []string{"flip@layers.2.norm phase=fwd step=2 rank=1 out=y bit=30"},
			want: "rank 1: +Inf first written by layers.2.moe.router.z_loss, fwd of step 2 microbatch 0: loss[0]"},
		"a bias, which no metric shows": {faults: nanBias(""), want: "NaN first written by layers.2.moe.router.bias, opt of step 2 microbatch 0: bias[1]"},
		"of another rank": {layout: parallel.Layout{DP: 2}, faults: nanBias(" rank=1"),
			want: "rank 1: NaN first written by layers.2.moe.router.bias, opt of step 2 microbatch 0: bias[1]"},
		"in memory": {faults: nanBias(" at=rest"), want: "layers.2.moe.router.bias[1] is NaN or infinite after step 2; no Call wrote it"},
		"what cannot be replayed": {real: true, faults: nanBias(""),
			want: "layers.2.moe.router.bias[1] is NaN or infinite after step 2; the run cannot be replayed to find the Call, because its schedule is real"},
	} {
		c0 := train.Pico()
		c0.Steps, c0.Micro = 2, 2
		o, err := Run(Spec{Config: c0, Layout: c.layout, Faults: c.faults, Schedule: device.Schedule{Real: c.real}})
		require.NoError(t, err, name)
		require.Equal(t, c.want, o.NonFinite, name)
	}
}

// A step that fp16 skips is none of that, however infinite it was. What reaches a state is, and the Call that is named is of a step that was taken.
func TestSkippedStepsAreNotReported(t *testing.T) {
	c := train.Tiny()
	c.Model.Pattern, c.Precision, c.Steps, c.Optim.LossScale.Initial = "*E-", "fp16", 5, 1<<22
	skipped := func(faults ...string) (all []int, what string) {
		o, err := Run(Spec{Config: c, Layout: parallel.Layout{DP: 2}, Faults: faults})
		require.NoError(t, err)
		for _, s := range o.Steps {
			if s.Skipped {
				require.True(t, math.IsNaN(s.Metrics[4].Value) || math.IsInf(s.Metrics[4].Value, 0), "grad_norm")
				all = append(all, s.Step)
			}
		}
		return all, o.NonFinite
	}
	all, what := skipped()
	require.Equal(t, []int{1, 2}, all)
	require.Empty(t, what)
	all, what = skipped("set@layers.2.mlp.w1 phase=fwd step=4 value=inf")
	require.Equal(t, []int{1, 2, 4}, all)
	require.Empty(t, what)
	_, what = skipped("set@optim.norm.w out=v step=4 value=inf")
	require.Equal(t, "rank 0: +Inf first written by optim.norm.w, opt of step 4 microbatch 0: v[0]", what)
	_, what = skipped("set@loss_scale.update out=scale step=4 value=inf")
	require.Equal(t, "rank 0: +Inf first written by loss_scale.update, opt of step 4 microbatch 0: scale[0]", what)
}
