package kernel

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel/check"
)

func TestRouterGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	rows, e, k := 4, 6, 3
	s := make([]float64, rows*e)
	for i := range s {
		s[i] = 0.1 + r.Float64()
	}
	index := make([]int32, rows*k)
	TopK(index, s, nil, e, k, TieLow)
	g := make([]float64, rows*k)
	check.Gradient(t, "gather", s, func() []float64 { Gather(g, s, index, e, k); return g }, func(dy []float64) []float64 {
		d := make([]float64, len(s))
		GatherBackward(d, dy, index, e, k)
		return d
	})
	p, sum := make([]float64, rows*k), make([]float64, rows)
	Gather(g, s, index, e, k)
	check.Gradient(t, "normalize", g, func() []float64 { Normalize(p, sum, g, k, 2.5, inOrder(k)); return p }, func(dy []float64) []float64 {
		d := make([]float64, len(g))
		NormalizeBackward(d, dy, g, sum, k, 2.5, inOrder(k))
		return d
	})
	share := make([]float64, rows*e)
	check.Gradient(t, "share", s, func() []float64 { ProbShare(share, s, e, inOrder(e)); return share }, func(dy []float64) []float64 {
		d := make([]float64, len(s))
		ProbShareBackward(d, dy, s, e, inOrder(e))
		return d
	})
	counts := []int32{3, 1, 2, 4, 1, 1}
	check.Gradient(t, "aux loss", s, func() []float64 {
		return []float64{AuxLoss(s, counts, e, 3, 0.7, inOrder, inOrder(e), inOrder(3), nil)}
	}, func(dy []float64) []float64 {
		d := make([]float64, len(s))
		AuxLossBackward(d, counts, e, 0.7, dy[0])
		return d
	})
	check.Gradient(t, "z loss", s, func() []float64 { return []float64{ZLoss(s, e, 0.3, inOrder(e), inOrder(rows))} }, func(dy []float64) []float64 {
		d := make([]float64, len(s))
		ZLossBackward(d, s, e, 0.3, dy[0], inOrder(e))
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
		GroupedMatMul(h, x, w1, offsets, d, f, false, inOrder(d))
		ReLU2(a, h)
		MulRows(a, a, p, f)
		GroupedMatMul(y, a, w2, offsets, f, d, false, inOrder(f))
		return y
	}
	backward := func(dy []float64) (dx, dw1, dw2, dp []float64) {
		dh := make([]float64, rows*f)
		dx, dw1, dw2, dp = make([]float64, len(x)), make([]float64, len(w1)), make([]float64, len(w2)), make([]float64, rows)
		GroupedMatMul(dh, dy, w2, offsets, d, f, true, inOrder(d))
		til := Tiling{M: 2, N: 4, Sub: 2, Grid: 3}
		tiles := til.Tiles(offsets, f)
		til.Dispatch(tiles, nil)
		GroupedDProb(dp, dh, dh, h, p, f, til, tiles, inOrder, func(int) Fold { return inOrder(til.Cols(f)) }, nil)
		GroupedMatMulWeight(dw1, x, dh, offsets, d, f, inOrder)
		GroupedMatMulWeight(dw2, a, dy, offsets, f, d, inOrder)
		GroupedMatMul(dx, dh, w1, offsets, f, d, true, inOrder(f))
		return
	}
	check.Gradient(t, "dx", x, forward, func(dy []float64) []float64 { g, _, _, _ := backward(dy); return g })
	check.Gradient(t, "dw1", w1, forward, func(dy []float64) []float64 { _, g, _, _ := backward(dy); return g })
	check.Gradient(t, "dw2", w2, forward, func(dy []float64) []float64 { _, _, g, _ := backward(dy); return g })
	check.Gradient(t, "dprob", p, forward, func(dy []float64) []float64 { _, _, _, g := backward(dy); return g })
}

func TestPermuteGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	index := []int32{2, 0, 1, 2, 0, 1} // 3 tokens, 2 slots, 3 experts
	order, inverse, offsets := make([]int32, 6), make([]int32, 6), make([]int32, 4)
	Permute(order, inverse, offsets, index, 3, 2)
	require.Equal(t, []int32{1, 4, 2, 5, 0, 3}, order, "expert-major, token-ascending (docs/facts.md, Model)")
	require.Equal(t, []int32{0, 2, 4, 6}, offsets)
	x, y := check.Normal(r, 3*4), make([]float64, 6*4)
	check.Gradient(t, "dispatch", x, func() []float64 { GatherRows(y, x, order, 2, 4); return y }, func(dy []float64) []float64 {
		dx := make([]float64, len(x))
		CombineSlots(dx, dy, inverse, 2, 4, inOrder(2))
		return dx
	})
	rows, z := check.Normal(r, 6*4), make([]float64, 3*4)
	check.Gradient(t, "combine", rows, func() []float64 { CombineSlots(z, rows, inverse, 2, 4, inOrder(2)); return z }, func(dy []float64) []float64 {
		d := make([]float64, len(rows))
		GatherRows(d, dy, order, 2, 4)
		return d
	})
}

func TestScoreGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	x, y := check.Normal(r, 40), make([]float64, 40)
	check.Gradient(t, "sigmoid", x, func() []float64 { Sigmoid(y, x); return y }, func(dy []float64) []float64 {
		dx := make([]float64, 40)
		SigmoidBackward(dx, dy, y)
		return dx
	})
	check.Gradient(t, "softmax", x, func() []float64 { Softmax(y, x, 8, inOrder(8)); return y }, func(dy []float64) []float64 {
		dx := make([]float64, 40)
		SoftmaxBackward(dx, dy, y, 8, inOrder(8))
		return dx
	})
}
