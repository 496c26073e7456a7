package moe

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel"
	"firstbit/kernel/check"
	"firstbit/nn"
)

func TestRouterGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	rows, e, k := 4, 6, 3
	s := make([]float64, rows*e)
	for i := range s {
		s[i] = 0.1 + r.Float64()
	}
	index := make([]int32, rows*k)
	topK(index, s, nil, e, k, tieLow)
	g := make([]float64, rows*k)
	check.Gradient(t, "gather", s, func() []float64 { gather(g, s, index, e, k); return g }, func(dy []float64) []float64 {
		d := make([]float64, len(s))
		gatherBackward(d, dy, index, e, k)
		return d
	})
	p, sum := make([]float64, rows*k), make([]float64, rows)
	gather(g, s, index, e, k)
	check.Gradient(t, "normalize", g, func() []float64 { normalize(p, sum, g, k, 2.5, inOrder(k)); return p }, func(dy []float64) []float64 {
		d := make([]float64, len(g))
		normalizeBackward(d, dy, g, sum, k, 2.5, inOrder(k))
		return d
	})
	share := make([]float64, rows*e)
	check.Gradient(t, "share", s, func() []float64 { probShare(share, s, e, inOrder(e)); return share }, func(dy []float64) []float64 {
		d := make([]float64, len(s))
		probShareBackward(d, dy, s, e, inOrder(e))
		return d
	})
	counts := []int32{3, 1, 2, 4, 1, 1}
	check.Gradient(t, "aux loss", s, func() []float64 {
		return []float64{auxLoss(s, counts, e, 3, 0.7, inOrder, inOrder(e), inOrder(3), nil)}
	}, func(dy []float64) []float64 {
		d := make([]float64, len(s))
		auxLossBackward(d, counts, e, 0.7, dy[0])
		return d
	})
	check.Gradient(t, "z loss", s, func() []float64 { return []float64{zLoss(s, e, 0.3, inOrder(e), inOrder(rows))} }, func(dy []float64) []float64 {
		d := make([]float64, len(s))
		zLossBackward(d, s, e, 0.3, dy[0], inOrder(e))
		return d
	})
}

// The whole expert: h = x·W1, y = (p·relu²(h))·W2, with its fused epilogue.
func TestGroupedGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	rows, d, f, e := 9, 3, 10, 3
	offsets := []int32{0, 4, 4, 9} // the middle expert has no rows
	x, w1, w2, p := check.Normal(r, rows*d), check.Normal(r, e*d*f), check.Normal(r, e*f*d), check.Normal(r, rows)
	h, a, y := make([]float64, rows*f), make([]float64, rows*f), make([]float64, rows*d)
	forward := func() []float64 {
		groupedMatMul(h, x, w1, offsets, d, f, false, inOrder(d))
		nn.ReLU2(a, h)
		mulRows(a, a, p, f)
		groupedMatMul(y, a, w2, offsets, f, d, false, inOrder(f))
		return y
	}
	backward := func(dy []float64) (dx, dw1, dw2, dp []float64) {
		dh := make([]float64, rows*f)
		dx, dw1, dw2, dp = make([]float64, len(x)), make([]float64, len(w1)), make([]float64, len(w2)), make([]float64, rows)
		groupedMatMul(dh, dy, w2, offsets, d, f, true, inOrder(d))
		til := tiling{M: 2, N: 4, Sub: 2, Grid: 3}
		tiles := til.Tiles(offsets, f)
		til.Dispatch(tiles, nil)
		groupedDProb(dp, dh, dh, h, p, f, til, tiles, inOrder, func(int) kernel.Fold { return inOrder(til.Cols(f)) }, nil)
		groupedMatMulWeight(dw1, x, dh, offsets, d, f, inOrder)
		groupedMatMulWeight(dw2, a, dy, offsets, f, d, inOrder)
		groupedMatMul(dx, dh, w1, offsets, f, d, true, inOrder(f))
		return
	}
	check.Gradient(t, "dx", x, forward, func(dy []float64) []float64 { g, _, _, _ := backward(dy); return g })
	check.Gradient(t, "dw1", w1, forward, func(dy []float64) []float64 { _, g, _, _ := backward(dy); return g })
	check.Gradient(t, "dw2", w2, forward, func(dy []float64) []float64 { _, _, g, _ := backward(dy); return g })
	check.Gradient(t, "dprob", p, forward, func(dy []float64) []float64 { _, _, _, g := backward(dy); return g })
}

// The activation's gradient as a kernel of its own.
func TestUnfusedGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	const rows, f = 5, 7
	h, p, a := check.Normal(r, rows*f), check.Normal(r, rows), make([]float64, rows*f)
	forward := func() []float64 {
		nn.ReLU2(a, h)
		mulRows(a, a, p, f)
		return a
	}
	backward := func(da []float64) (dh, dp []float64) {
		dh, dp = make([]float64, rows*f), make([]float64, rows)
		reluProbBackward(dh, dp, da, h, p, inOrder(f))
		return
	}
	check.Gradient(t, "dh", h, forward, func(da []float64) []float64 { g, _ := backward(da); return g })
	check.Gradient(t, "dp", p, forward, func(da []float64) []float64 { _, g := backward(da); return g })
}

func TestPermuteGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	index := []int32{2, 0, 1, 2, 0, 1} // 3 tokens, 2 slots, 3 experts
	order, inverse, offsets := make([]int32, 6), make([]int32, 6), make([]int32, 4)
	kernel.Permute(order, inverse, offsets, index, 3, 2)
	require.Equal(t, []int32{1, 4, 2, 5, 0, 3}, order, "expert-major, token-ascending (docs/facts.md, Model)")
	require.Equal(t, []int32{0, 2, 4, 6}, offsets)
	x, y := check.Normal(r, 3*4), make([]float64, 6*4)
	check.Gradient(t, "dispatch", x, func() []float64 { gatherRows(y, x, order, 2, 4); return y }, func(dy []float64) []float64 {
		dx := make([]float64, len(x))
		combineSlots(dx, dy, inverse, 2, 4, inOrder(2))
		return dx
	})
	rows, z := check.Normal(r, 6*4), make([]float64, 3*4)
	check.Gradient(t, "combine", rows, func() []float64 { combineSlots(z, rows, inverse, 2, 4, inOrder(2)); return z }, func(dy []float64) []float64 {
		d := make([]float64, len(rows))
		gatherRows(d, dy, order, 2, 4)
		return d
	})
}

func TestScoreGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	x, y := check.Normal(r, 40), make([]float64, 40)
	check.Gradient(t, "sigmoid", x, func() []float64 { sigmoid(y, x); return y }, func(dy []float64) []float64 {
		dx := make([]float64, 40)
		sigmoidBackward(dx, dy, y)
		return dx
	})
	check.Gradient(t, "softmax", x, func() []float64 { softmax(y, x, 8, inOrder(8)); return y }, func(dy []float64) []float64 {
		dx := make([]float64, 40)
		softmaxBackward(dx, dy, y, 8, inOrder(8))
		return dx
	})
}
