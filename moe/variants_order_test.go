package moe

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/match"

	"firstbit/device"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/reduce"
)

// watch runs a forward with the Plan of one kernel's Call changed and shows f the Call.
func watch(t *testing.T, b *bench, kernel, plan string, f func(c *device.Call)) {
	b.dev = device.New(device.Options{Schedule: device.Schedule{Seed: 5}}, func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			if c.Kernel.Name != kernel {
				next(c)
				return
			}
			var err error
			c.Plan, err = c.Plan.With(reduce.MustPlan(plan))
			require.NoError(t, err)
			c.Probe = func(device.Partial) {}
			next(c)
			f(c)
		}
	})
	b.forward(1)
}

// Group scores are the tree of their plan over a group's sorted scores.
func TestGroupScoresFollowTheirPlan(t *testing.T) {
	bits := map[string]uint32{}
	for _, plan := range []string{"group:seq", "group:reverse", "group:pairwise", "group:seq/bf16", "group:arrival", "group:given(1 0 2)"} {
		b := newBench(inGroups(func(c *Config) { c.TopK, c.GroupTop = 6, 3 }), lowp.FP32)
		watch(t, b, "group_scores", plan, func(c *device.Call) {
			r := c.Plan.Reduction("group")
			order := r.Order
			if !order.Concrete() {
				order = reduce.Given(c.Arrivals[0].Order)
			}
			s, sums := c.Input("scores").F32(), c.Output("sums").F32()
			digest := uint32(0)
			for i, sum := range sums {
				group := slices.Clone(s[i*3:][:3]) // groups of three lie one after another
				for j := range group {
					group[j] += b.Router.Bias.F32()[i*3%12+j]
				}
				slices.Sort(group)
				slices.Reverse(group)
				require.Equal(t, math.Float32bits(order.Tree(3).Sum(group, r.Acc)), math.Float32bits(sum), plan)
				digest = digest*31 + math.Float32bits(sum)
			}
			bits[plan] = digest
		})
	}
	require.Len(t, bits, 6)
	require.NotEqual(t, bits["group:seq"], bits["group:reverse"], "negative control")
	require.NotEqual(t, bits["group:seq"], bits["group:seq/bf16"], "negative control")
	require.Equal(t, bits["group:given(1 0 2)"], bits["group:seq"], "a + b = b + a")
}

// Softmax after top-k adds its slots by its plan.
func TestSoftmaxTopKFollowsItsPlan(t *testing.T) {
	weights := map[string][]float32{}
	for _, plan := range []string{"slots:seq", "slots:reverse", "slots:pairwise", "slots:seq/bf16"} {
		c := small
		c.Router, c.TopK = "softmax_topk", 5
		watch(t, newBench(c, lowp.FP32), "softmax_topk", plan, func(c *device.Call) {
			w, p, r := c.Output("weights").F32(), c.Output("prob").F32(), c.Plan.Reduction("slots")
			for i := 0; i < len(w); i += 5 {
				e := slices.Clone(c.Input("chosen").F32()[i : i+5])
				m := slices.Max(e)
				for j := range e {
					e[j] = libm.ExpOf(e[j] - m)
				}
				sum := r.Order.Tree(5).Sum(e, r.Acc)
				for j, v := range e {
					require.Equal(t, math.Float32bits(v/sum), math.Float32bits(w[i+j]), plan)
					require.Equal(t, math.Float32bits(v/sum*2.5), math.Float32bits(p[i+j]), plan)
				}
			}
			weights[plan] = slices.Clone(w)
		})
	}
	require.NotEqual(t, weights["slots:seq"], weights["slots:reverse"], "negative control")
	require.NotEqual(t, weights["slots:seq"], weights["slots:seq/bf16"], "negative control")
}

// The CTAs of the loss by sequence share a sequence's positions.
func TestAuxLossBySequenceIsItsCTAs(t *testing.T) {
	c := small
	c.Aux = "sequence" // two sequences of three
	for _, plan := range []string{"ctas:seq; grid=2", "ctas:reverse; grid=2", "ctas:seq; grid=9"} {
		b, sum, n := newBench(c, lowp.FP32), float32(math.Copysign(0, -1)), 0
		b.dev = device.New(device.Options{}, func(next device.Runner) device.Runner {
			return func(c *device.Call) {
				if c.Label == "aux_loss" {
					var err error
					c.Plan, err = c.Plan.With(reduce.MustPlan(plan))
					require.NoError(t, err)
					c.Probe = func(p device.Partial) { sum += p.F32[0]; n++ }
				}
				next(c)
			}
		})
		b.forward(1)
		require.Equal(t, math.Float32bits(sum/2), math.Float32bits(b.Aux.F32()[0]), plan)
		require.Equal(t, min(reduce.MustPlan(plan).Int("grid"), 3), n, plan)
	}
}

// Of two groups with the same scores the kernels keep different ones, as of two experts, in one group or
// without any (docs/facts.md, Kernels); a rule cures both.
func TestGroupTiesFollowTheKernel(t *testing.T) {
	for _, want := range []struct {
		plan              string
		twoGroups, within [2]int32 // the first token's group and expert
	}{
		{"fused=false; tie=native", [2]int32{1, 3}, [2]int32{0, 1}}, {"fused=true; tie=native", [2]int32{2, 6}, [2]int32{0, 2}},
		{"fused=true; tie=low", [2]int32{1, 3}, [2]int32{0, 1}}, {"fused=false; tie=low", [2]int32{1, 3}, [2]int32{0, 1}},
	} {
		require.Equal(t, want.twoGroups, firstOfTied(want.plan, 3, 6), want.plan)
		require.Equal(t, want.within, firstOfTied(want.plan, 1, 2), want.plan)
	}
}

// firstOfTied is the group and expert that the first token chooses when two experts tie for the largest score.
func firstOfTied(plan string, tied ...int) [2]int32 {
	b := newBench(inGroups(func(c *Config) { c.TopK, c.GroupsKept, c.GroupTop = 1, 1, 1 }), lowp.FP32)
	var kept int32
	b.dev = device.New(device.Options{}, func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			if match.Match(c.ID.Path, "*.topk*") { // the choice of groups, of experts, and the unbiased one
				c.Plan = reduce.MustPlan(plan + "; slots=value; sort=false")
			}
			next(c)
			if c.Label == "topk_groups" {
				kept = c.Out[0].I32()[0]
			}
		}
	})
	w := b.Router.W.W.F32()
	for i := range w {
		w[i] = float32(math.Copysign(1, float64(b.x.F32()[i%width]))) // the first token's signs: a large logit
		if !slices.Contains(tied, i/width) {
			w[i] = -w[i]
		}
		b.Router.Bias.Set(i/width, 0)
	}
	b.forward(1)
	return [2]int32{kept, b.index.I32()[0]}
}

// A token of NaNs has distinct experts, of the groups it keeps, and the others are what they were.
func TestNaNIsRouted(t *testing.T) {
	for _, router := range []string{"sigmoid", "softmax", "softmax_topk"} {
		c := inGroups(func(c *Config) { c.Router = router })
		clean, b := newBench(c, lowp.FP32), newBench(c, lowp.FP32)
		b.x.F32()[2*width] = float32(math.NaN()) // of token 2
		clean.forward(1)
		b.forward(1)
		require.Equal(t, []int32{0, 1, 2, 3}, b.index.I32()[2*c.TopK:3*c.TopK], "nothing to compare: the lowest")
		for row := range tokens {
			if row != 2 {
				require.Equal(t, clean.index.I32()[row*c.TopK:][:c.TopK], b.index.I32()[row*c.TopK:][:c.TopK])
			}
		}
	}
}
