package nn

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/reduce"
)

// Uses that are kept apart each sum their microbatches pairwise, in every step anew; together, all would be one chain.
func TestUsesAreApart(t *testing.T) {
	const n, uses = 9, 2
	for _, micro := range []int{1, 2, 4, 8} {
		dev, p := device.New(device.Options{}), NewParam("w", lowp.BF16, true, n)
		by := new(ByUse)
		p.Accumulator = by
		r := rand.New(rand.NewPCG(5, uint64(micro)))
		differs := false
		for step := 1; step <= 3; step++ {
			p.ZeroGrad()
			x := make([][uses][]float32, micro)
			for m := range micro {
				dev.At(step, m, device.Bwd)
				for use := range uses {
					dw := device.NewTensor(lowp.FP32, n)
					for i := range dw.F32() {
						dw.F32()[i] = float32(r.NormFloat64())
					}
					x[m][use] = append([]float32(nil), dw.F32()...)
					Accumulate(dev, fmt.Sprint(use), p, dw)
				}
			}
			require.Len(t, by.Uses, uses)
			for use := range uses {
				for i := range n {
					leaves := make([]float32, micro)
					for m := range leaves {
						leaves[m] = x[m][use][i]
					}
					got := by.Uses[use].Total().F32()[i]
					require.Equal(t, reduce.Pairwise.Tree(micro).Sum(leaves, lowp.FP32), got, "%d microbatches, use %d", micro, use)
					differs = differs || reduce.Seq.Tree(micro).Sum(leaves, lowp.FP32) != got
				}
			}
		}
		require.Equal(t, micro > 2, differs, "negative control: a chain")
		require.LessOrEqual(t, len(by.Uses[0].sources[0].levels), 4)
	}
}

func TestATotalNeedsAPowerOfTwo(t *testing.T) {
	dev, p := device.New(device.Options{}), NewParam("w", lowp.FP32, true, 1)
	by := new(ByUse)
	p.Accumulator = by
	for m := range 3 {
		dev.At(1, m, device.Bwd)
		Accumulate(dev, "w", p, device.NewTensor(lowp.FP32, 1))
	}
	require.Panics(t, func() { by.Uses[0].Total() })
	p.ZeroGrad()
	require.Panics(t, func() { by.Uses[0].Total() }, "nothing of this step yet")
}

// Every source sums its microbatches pairwise, and then the sources meet pairwise: as one rank has them that sees one
// source's microbatches after another's. In one counter, microbatch by microbatch, they meet otherwise.
func TestSourcesAreApart(t *testing.T) {
	const n = 9
	for _, c := range []struct{ micro, sources int }{{1, 2}, {2, 2}, {4, 2}, {2, 4}, {4, 8}} {
		dev, apart, one, merged := device.New(device.Options{}), NewParam("apart", lowp.BF16, true, n), NewParam("one", lowp.BF16, true, n), NewParam("merged", lowp.BF16, true, n)
		uses, single, all := new(ByUse), new(ByUse), new(ByUse)
		apart.Accumulator, one.Accumulator, merged.Accumulator = uses, single, all
		r := rand.New(rand.NewPCG(7, uint64(c.micro)))
		for step := 1; step <= 2; step++ {
			apart.ZeroGrad()
			one.ZeroGrad()
			merged.ZeroGrad()
			dw := make([][]*device.Tensor, c.micro) // by microbatch and source
			for m := range dw {
				for range c.sources {
					x := device.NewTensor(lowp.FP32, n)
					for i := range x.F32() {
						x.F32()[i] = float32(r.NormFloat64())
					}
					dw[m] = append(dw[m], x)
				}
				dev.At(step, m, device.Bwd)
				AccumulateSources(dev, "apart", apart, dw[m])
			}
			for i := range c.micro * c.sources {
				dev.At(step, i, device.Bwd)
				Accumulate(dev, "one", one, dw[i%c.micro][i/c.micro])
				Accumulate(dev, "merged", merged, dw[i/c.sources][i%c.sources])
			}
			dev.At(step, 0, device.Opt)
			got := Total(dev, "total", uses.Uses[0]).F32()
			require.Equal(t, single.Uses[0].Total().F32(), got, "%d microbatches of %d sources", c.micro, c.sources)
			require.Same(t, single.Uses[0].Total(), Total(dev, "none", single.Uses[0]), "one source has no Call")
			if c.micro > 1 {
				require.NotEqual(t, all.Uses[0].Total().F32(), got, "negative control: one counter for all")
			}
			require.Panics(t, func() { uses.Uses[0].Total() })
		}
	}
	require.Panics(t, func() { AccumulateSources(device.New(device.Options{}), "w", NewParam("w", lowp.FP32, true, 1), nil) })
}
