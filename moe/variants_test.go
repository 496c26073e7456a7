package moe

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
)

// inGroups is small with twelve experts in four groups, of which a token keeps two.
func inGroups(change ...func(*Config)) Config {
	c := small
	c.Experts, c.TopK, c.Groups, c.GroupsKept = 12, 4, 4, 2
	for _, f := range change {
		f(&c)
	}
	return c
}

// variant is a layer with one thing about it that small has not, and what undoes it.
type variant struct {
	name string
	c    Config
	undo func(*Config)
}

func variants() (v []variant) {
	for _, router := range []string{"sigmoid", "softmax", "softmax_topk"} {
		kind := func(c *Config) { c.Router = router }
		with := func(c Config, change func(*Config)) Config { kind(&c); change(&c); return c }
		ungroup := func(c *Config) { c.Groups, c.GroupsKept, c.GroupTop = 0, 0, 0 }
		v = append(v,
			variant{router + " groups", inGroups(kind), ungroup},
			variant{router + " groups by their best", inGroups(kind, func(c *Config) { c.GroupTop = 1 }), func(c *Config) { c.GroupTop = 0 }},
			variant{router + " groups by all, top-5", inGroups(kind, func(c *Config) { c.TopK, c.GroupTop = 5, 3 }), func(c *Config) { c.GroupTop = 0 }},
			variant{router + " latent", with(small, func(c *Config) { c.Latent = 4 }), nil},
			variant{router + " wide latent", with(small, func(c *Config) { c.Latent = 9 }), nil},
			variant{router + " by sequence", with(small, func(c *Config) { c.Aux = "sequence" }), func(c *Config) { c.Aux = "batch" }},
			variant{router + " all", inGroups(kind, func(c *Config) { c.Latent, c.Aux = 4, "sequence" }), ungroup})
	}
	for _, k := range []int{2, 3, 5} {
		c := small
		c.Router, c.TopK = "softmax_topk", k
		v = append(v, variant{fmt.Sprintf("softmax of top-%d", k), c, func(c *Config) { c.Router = "softmax" }})
	}
	return v
}

// Every variant by its formula; without what makes it one, the formula gives something else.
func TestVariantsAreTheirDefinition(t *testing.T) {
	groupsMattered := 0
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			require.NoError(t, v.c.Validate())
			b := newBench(v.c, lowp.FP64)
			y, want := b.run(), naiveLayer(b, v.c)
			for i := range want.y {
				require.InDelta(t, want.y[i], y[i], 1e-11)
			}
			require.InDelta(t, want.aux, b.Aux.Value(0), 1e-14)
			require.InDelta(t, want.z, b.Z.Value(0), 1e-13)
			if v.c.Groups > 1 {
				groupsMattered += want.grouped
			}
			if v.undo == nil {
				return
			}
			c := v.c
			v.undo(&c)
			other := naiveLayer(b, c)
			require.False(t, slices.Equal(want.y, other.y) && want.aux == other.aux, "negative control")
		})
	}
	require.Greater(t, groupsMattered, 10, "groups must have changed choices, or they are not tested")
}

func (b *bench) run() []float64 {
	b.forward(1)
	return b.output.F64()
}

func TestVariantGradients(t *testing.T) {
	for _, v := range variants() {
		for _, shared := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s shared %d", v.name, shared), func(t *testing.T) {
				v.c.SharedHidden = shared
				b := newBench(v.c, lowp.FP64)
				got, want := b.backward(0.5), b.differences(t, 0.5)
				require.Less(t, gradError(got, want), 1e-6)
				for n := range got { // negative control, one tensor at a time
					i := largestAt(got[n])
					got[n][i] *= 1.001
					require.Greater(t, gradError(got, want), 1e-6)
					got[n][i] /= 1.001
				}
			})
		}
	}
}

// The loss by sequence alone: its gradient is not that of the batch's.
func TestGradientOfTheLossBySequence(t *testing.T) {
	for _, router := range []string{"sigmoid", "softmax", "softmax_topk"} {
		c := small
		c.Router, c.Aux, c.ZCoeff = router, "sequence", 0
		b := newBench(c, lowp.FP64)
		for i := range b.dy.Len() {
			b.dy.Set(i, 0)
		}
		got, want := b.backward(1), b.differences(t, 1)
		require.Less(t, gradError(got[:2], want[:2]), 1e-6, router)
		b.Router.Aux = "batch" // negative control
		require.Greater(t, gradError(b.backward(1)[:2], want[:2]), 1e-3, router)
	}
}

// Of one sequence, the loss by sequence is the loss of the batch to the bit.
func TestOneSequenceIsTheBatch(t *testing.T) {
	loss := func(aux string, sequence int) uint32 {
		b := newBench(small, lowp.FP32)
		b.Router.Aux, b.Router.Sequence = aux, sequence
		b.forward(1)
		return math.Float32bits(b.Aux.F32()[0])
	}
	require.Equal(t, loss("batch", 0), loss("sequence", tokens))
	require.NotEqual(t, loss("batch", 0), loss("sequence", 1))
	require.Panics(t, func() { loss("sequence", 0) })
	require.Panics(t, func() { loss("sequence", 3) }, "seven tokens are not whole sequences of three")
}

// Each refusal names its field.
func TestValidateVariants(t *testing.T) {
	for _, c := range []Config{inGroups(), inGroups(func(c *Config) { c.GroupsKept = 4 }), inGroups(func(c *Config) { c.Groups, c.GroupsKept = 1, 1 }),
		inGroups(func(c *Config) { c.TopK, c.GroupTop = 1, 2 })} {
		require.NoError(t, c.Validate())
	}
	for _, refused := range []struct {
		want   string
		change func(*Config)
	}{
		{"groups: 5: must be 0 or 1 (none), or divide model.moe.experts (12)", func(c *Config) { c.Groups = 5 }},
		{"groups: -2:", func(c *Config) { c.Groups = -2 }},
		{"groups: 24:", func(c *Config) { c.Groups = 24 }},
		{"groups_kept: 0: must be from 1 to model.moe.groups (4)", func(c *Config) { c.GroupsKept = 0 }},
		{"groups_kept: 5:", func(c *Config) { c.GroupsKept = 5 }},
		{"groups_kept: 2: must be 0 or 1 without groups", func(c *Config) { c.Groups = 0 }},
		{"group_top: 2: must be 0 without groups", func(c *Config) { c.Groups, c.GroupsKept, c.GroupTop = 0, 0, 2 }},
		{"top_k: 7: must be at most the experts of the kept groups, 2·12/4 = 6", func(c *Config) { c.TopK = 7 }},
		{"group_top: 4: must be from 0 (top_k/groups_kept) to the experts of a group (3)", func(c *Config) { c.GroupTop = 4 }},
		{"group_top: -1:", func(c *Config) { c.GroupTop = -1 }},
		{"group_top: 0: must be at least 1 where model.moe.top_k (1) is below model.moe.groups_kept (2)", func(c *Config) { c.TopK = 1 }},
		{"latent: -1: must be from 0 (no projection)", func(c *Config) { c.Latent = -1 }},
		{"latent:", func(c *Config) { c.Latent = 1<<20 + 1 }},
		{"aux: \"token\": must be batch (or empty) or sequence", func(c *Config) { c.Aux = "token" }},
		{"router: \"topk\": must be one of sigmoid, softmax, softmax_topk", func(c *Config) { c.Router = "topk" }},
		{"top_k: 1: must be at least 2 with model.moe.router softmax_topk", func(c *Config) { c.Router, c.TopK, c.GroupTop = "softmax_topk", 1, 1 }},
	} {
		c := inGroups(refused.change)
		require.ErrorContains(t, c.Validate(), "model.moe."+refused.want)
	}
}
