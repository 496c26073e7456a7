package model

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// superlike is a network whose experts are grouped and work in a latent, as the larger models of the family.
func superlike(change func(*Config)) Config {
	c := small("*-E")
	c.MoE.Experts, c.MoE.TopK, c.MoE.Groups, c.MoE.GroupsKept, c.MoE.Latent, c.MoE.SharedHidden = 9, 4, 3, 2, 5, 4
	change(&c)
	return c
}

var moeVariants = map[string]func(*Config){
	"sigmoid":      func(*Config) {},
	"softmax":      func(c *Config) { c.MoE.Router = "softmax" },
	"softmax_topk": func(c *Config) { c.MoE.Router = "softmax_topk" },
	"by sequence":  func(c *Config) { c.MoE.Aux = "sequence" },
	"all":          func(c *Config) { c.MoE.Router, c.MoE.Aux, c.MoE.GroupTop = "softmax_topk", "sequence", 3 },
}

// Every Call of the backward counts: each in turn made one percent too large must be noticed.
func TestGradientsOfGroupedLatentExperts(t *testing.T) {
	for name, change := range moeVariants {
		t.Run(name, func(t *testing.T) {
			c := superlike(change)
			c.Pattern = "E"
			checkGradients(t, newBench(t, c, lowp.FP64))
		})
	}
	checkGradients(t, newBench(t, superlike(moeVariants["all"]), lowp.FP64))
}

// The projections are listed where the forward meets them, and counted; experts are as wide as the latent.
func TestLatentParams(t *testing.T) {
	c := superlike(func(c *Config) { c.Pattern = "E" })
	m, err := New(c, lowp.FP32)
	require.NoError(t, err)
	require.Equal(t, []string{"embed.w", "layers.0.norm.w", "layers.0.moe.router.w", "layers.0.moe.latent.down",
		"layers.0.moe.experts.w1", "layers.0.moe.experts.w2", "layers.0.moe.latent.up",
		"layers.0.moe.shared.w1", "layers.0.moe.shared.w2", "norm.w", "head.w"}, names(m))
	require.Equal(t, c.Params(), count(m))
	shape := map[string][]int{}
	for _, p := range m.Params() {
		shape[p.Name] = p.W.Shape()
	}
	require.Equal(t, []int{6, 5}, shape["layers.0.moe.latent.down"])
	require.Equal(t, []int{5, 6}, shape["layers.0.moe.latent.up"])
	require.Equal(t, []int{9, 5, 10}, shape["layers.0.moe.experts.w1"])
	require.Equal(t, []int{9, 10, 5}, shape["layers.0.moe.experts.w2"])
	require.Equal(t, []int{9, 6}, shape["layers.0.moe.router.w"])
	listed := []string{}
	for _, p := range m.Blocks[0].Mixer.Params() {
		listed = append(listed, p.Name)
	}
	require.Equal(t, names(m)[2:9], listed)
}

// What writes to the residual is divided by √(2L), and so are experts behind a latent; the way down is not.
func TestLatentInitScale(t *testing.T) {
	c := small("EE")
	c.Width, c.InitStd = 64, 0.5
	c.MoE.Experts, c.MoE.Hidden, c.MoE.Latent = 8, 32, 32
	want := map[string]float64{"router.w": 0.5, "latent.down": 0.5, "experts.w1": 0.5, "experts.w2": 0.25, "latent.up": 0.25}
	for _, p := range initial(t, c, lowp.FP32, 3).Params() {
		if len(p.Name) < 13 || p.Name[:13] != "layers.1.moe." {
			continue
		}
		sum := 0.0
		for _, v := range p.W.F32() {
			sum += float64(v) * float64(v)
		}
		require.InEpsilon(t, want[p.Name[13:]], math.Sqrt(sum/float64(p.W.Len())), 0.07, p.Name)
		delete(want, p.Name[13:])
	}
	require.Empty(t, want)
}

// A step leaves nothing behind, in any format and variant, and the choice of groups is a Call that traces show.
func TestVariantStepsLeaveNothingBehind(t *testing.T) {
	for name, change := range moeVariants {
		for _, f := range []lowp.Format{lowp.FP32, lowp.BF16} {
			b := newBench(t, superlike(change), f)
			var paths []string
			b.after = func(c *device.Call) { paths = append(paths, c.ID.Path) }
			grads := func() (g []uint32) {
				b.forwardBackward()
				for _, p := range b.Params() {
					for _, v := range p.Grad.F32() {
						g = append(g, math.Float32bits(v))
					}
				}
				return g
			}
			first := grads()
			for _, path := range []string{"group_scores", "topk_groups", "topk"} {
				require.True(t, slices.Contains(paths, "layers.2.moe.router."+path), path)
			}
			b.tokens.I32()[2]++ // another step in between
			require.NotEqual(t, first, grads(), "negative control")
			b.tokens.I32()[2]--
			require.Equal(t, first, grads(), "%s %s", name, f)
		}
	}
}

// Impossible groups are refused when a model is built.
func TestGroupsAreValidated(t *testing.T) {
	_, err := New(superlike(func(c *Config) { c.MoE.Groups = 4 }), lowp.FP32)
	require.ErrorContains(t, err, "model.moe.groups: 4: must be 0 or 1 (none), or divide model.moe.experts (9)")
}

// The model tells its routers where sequences end.
func TestLossBySequenceSeesSequences(t *testing.T) {
	b := newBench(t, superlike(moeVariants["by sequence"]), lowp.FP64)
	var shape []int
	b.after = func(c *device.Call) {
		if c.Label == "counts" {
			shape = c.Out[0].Shape()
		}
	}
	b.loss()
	require.Equal(t, []int{2, 9}, shape, "two sequences, nine experts")
}
