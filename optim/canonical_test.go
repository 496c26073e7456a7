package optim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/parallel"
	"firstbit/reduce"
)

// canonicalPlans lays every kernel's canonical items over its fixed plan.
func canonicalPlans(next device.Runner) device.Runner {
	return func(c *device.Call) {
		c.Plan, _ = c.Plan.With(c.Kernel.Canonical)
		next(c)
	}
}

// update runs twelve steps over so many ranks, each rank's gradients being the pairwise sum of its share of eight parts. The first
// parameter is used twice. It returns the norms and what the weights come to.
func update(t *testing.T, ranks int, build func(c Config, p []*nn.Param, rank parallel.Rank, bucket int) *AdamW) (norms []float32, weights [][]float32) {
	t.Helper()
	c := Config{LR: 0.1, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Clip: 1}
	world := parallel.NewWorld(parallel.Layout{DP: ranks}, 4)
	require.NoError(t, world.Run(func(rank parallel.Rank) error {
		dev := device.New(device.Options{Rank: rank.Index}, canonicalPlans)
		params := []*nn.Param{nn.NewParam("a", lowp.FP32, true, 100, 7), nn.NewParam("b", lowp.BF16, false, 31), nn.NewParam("c", lowp.FP32, true, 5)}
		opt := build(c, params, rank, 600)
		for step := 1; step <= 12; step++ {
			dev.At(step, 0, device.Bwd)
			for i, p := range params {
				p.ZeroGrad()
				for use := range 2 - min(i, 1) {
					nn.Accumulate(dev, p.Name+string(rune('0'+use)), p, share(ranks, rank.Index, p, uint64(10*step+3*i+use)))
				}
			}
			dev.At(step, 0, device.Opt)
			norm, _ := opt.Step(dev, step, 0.1)
			if rank.Index == 0 {
				norms = append(norms, norm.F32()[0])
			}
		}
		if rank.Index == 0 {
			for _, p := range params {
				weights = append(weights, p.W.F32())
			}
		}
		return nil
	}))
	return norms, weights
}

// share is a rank's part of a gradient: of eight parts, those that are its own, joined pairwise.
func share(ranks, rank int, p *nn.Param, seed uint64) *device.Tensor {
	x := device.NewTensor(p.Grad.Format, p.Grad.Shape()...)
	per := 8 / ranks
	parts := make([][]float32, per)
	for i := range parts {
		r := rand.New(rand.NewPCG(seed, uint64(rank*per+i)))
		for range x.Len() {
			parts[i] = append(parts[i], float32(r.NormFloat64()))
		}
	}
	leaves, tree := make([]float32, per), reduce.Pairwise.Tree(per)
	for j := range x.F32() {
		for i := range parts {
			leaves[i] = parts[i][j]
		}
		x.F32()[j] = tree.Sum(leaves, lowp.FP32)
	}
	return x
}

// Norms, weights and the sums of two uses do not depend on the number of ranks; those of the plain optimizer do.
func TestCanonicalUpdates(t *testing.T) {
	norms, weights := update(t, 1, canonical)
	normsDiffer := false
	inOrder, inOrderWeights := update(t, 1, plain)
	for _, n := range []int{2, 4, 8} {
		gotNorms, gotWeights := update(t, n, canonical)
		require.Equal(t, norms, gotNorms, "%d ranks", n)
		require.Equal(t, weights, gotWeights, "%d ranks", n)
		gotNorms, gotWeights = update(t, n, plain)
		normsDiffer = normsDiffer || !slices.Equal(inOrder, gotNorms) // two roundings of one number may agree
		require.NotEqual(t, inOrderWeights, gotWeights, "negative control: %d ranks", n)
	}
	require.True(t, normsDiffer, "negative control")
	for i := range norms { // and both are the same function
		require.InEpsilon(t, inOrder[i], norms[i], 1e-6)
		require.Greater(t, norms[i], float32(math.Sqrt(700)), "the norm sees every element")
	}
}
