package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
	"firstbit/reduce"
)

func inOrder(n int) Fold { return Fold{Program: reduce.Seq.Program(n), Acc: lowp.FP32} }

func foldOf(order string, n int) Fold {
	return Fold{Program: reduce.MustOrder(order).Program(n), Acc: lowp.FP32}
}

func normal(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

// gradError is the largest error of a gradient against central differences of a random
// projection Σ p·f(x), relative to the gradient's largest element.
func gradError(r *rand.Rand, x []float64, f func() []float64, backward func(dy []float64) []float64) float64 {
	p := normal(r, len(f()))
	project := func() float64 {
		s := 0.0
		for i, v := range f() {
			s += v * p[i]
		}
		return s
	}
	f() // the backward reads what the forward saved
	dx := backward(p)
	scale, worst := 1e-12, 0.0
	for _, v := range dx {
		scale = max(scale, math.Abs(v))
	}
	const h = 1e-5
	for i := range x {
		keep := x[i]
		x[i] = keep + h
		hi := project()
		x[i] = keep - h
		lo := project()
		x[i] = keep
		worst = max(worst, math.Abs((hi-lo)/(2*h)-dx[i])/scale)
	}
	return worst
}

const gradTolerance = 1e-7

// checkGrad demands the gradient, and that one with a single element off by a thousandth of the largest is caught.
func checkGrad(t *testing.T, what string, x []float64, f func() []float64, backward func(dy []float64) []float64) {
	t.Helper()
	require.Less(t, gradError(rand.New(rand.NewPCG(9, 9)), x, f, backward), gradTolerance, what)
	wrong := func(dy []float64) []float64 {
		dx := append([]float64(nil), backward(dy)...)
		at := 0
		for i := range dx {
			if math.Abs(dx[i]) > math.Abs(dx[at]) {
				at = i
			}
		}
		dx[at] *= 1.001
		return dx
	}
	require.Greater(t, gradError(rand.New(rand.NewPCG(9, 9)), x, f, wrong), gradTolerance, "%s: a wrong gradient must fail", what)
}

func TestMatMulGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	m, n, k := 5, 7, 6
	a, b, y := normal(r, m*k), normal(r, k*n), make([]float64, m*n)
	f := func() []float64 { MatMul(y, n, RowMajor(a, k), RowMajor(b, n), m, n, k, inOrder(k)); return y }
	checkGrad(t, "da", a, f, func(dy []float64) []float64 {
		da := make([]float64, m*k)
		MatMul(da, k, RowMajor(dy, n), RowMajor(b, n).T(), m, k, n, inOrder(n))
		return da
	})
	checkGrad(t, "db", b, f, func(dy []float64) []float64 {
		db := make([]float64, k*n)
		MatMul(db, n, RowMajor(a, k).T(), RowMajor(dy, n), k, n, m, inOrder(m))
		return db
	})
}

func TestElementwiseGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	x, y := normal(r, 40), make([]float64, 40)
	checkGrad(t, "relu2", x, func() []float64 { ReLU2(y, x); return y }, func(dy []float64) []float64 {
		dx := make([]float64, 40)
		ReLU2Backward(dx, dy, x)
		return dx
	})
	checkGrad(t, "sigmoid", x, func() []float64 { Sigmoid(y, x); return y }, func(dy []float64) []float64 {
		dx := make([]float64, 40)
		SigmoidBackward(dx, dy, y)
		return dx
	})
	checkGrad(t, "softmax", x, func() []float64 { Softmax(y, x, 8, inOrder(8)); return y }, func(dy []float64) []float64 {
		dx := make([]float64, 40)
		SoftmaxBackward(dx, dy, y, 8, inOrder(8))
		return dx
	})
}

func TestRMSNormGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	rows, d := 5, 8
	x, w, y, rstd := normal(r, rows*d), normal(r, d), make([]float64, rows*d), make([]float64, rows)
	f := func() []float64 { RMSNorm(y, rstd, x, w, d, 1e-5, inOrder(d)); return y }
	checkGrad(t, "dx", x, f, func(dy []float64) []float64 {
		dx := make([]float64, rows*d)
		RMSNormBackward(dx, dy, x, w, rstd, d, inOrder(d))
		return dx
	})
	checkGrad(t, "dw", w, f, func(dy []float64) []float64 {
		dw := make([]float64, d)
		RMSNormWeightBackward(dw, dy, x, rstd, d, inOrder(rows))
		return dw
	})
}

func TestAttentionGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	s := AttentionShape{B: 2, T: 5, H: 4, KV: 2, P: 3}
	nq, nk := s.B*s.T*s.H*s.P, s.B*s.T*s.KV*s.P
	q, k, v := normal(r, nq), normal(r, nk), normal(r, nk)
	o, probs := make([]float64, nq), make([]float64, s.B*s.H*s.T*s.T)
	folds := AttentionFolds{P: inOrder(s.P), Keys: inOrder(s.T), DQ: foldOf("splitk(2)", s.T), Queries: inOrder(s.H / s.KV * s.T)}
	f := func() []float64 { Attention(o, probs, q, k, v, s, 0.5, folds); return o }
	for i, x := range [][]float64{q, k, v} {
		checkGrad(t, []string{"dq", "dk", "dv"}[i], x, f, func(do []float64) []float64 {
			d := [3][]float64{make([]float64, nq), make([]float64, nk), make([]float64, nk)}
			AttentionBackward(d[0], d[1], d[2], do, q, k, v, probs, s, 0.5, folds)
			return d[i]
		})
	}
	// Causal: what comes later changes nothing before it.
	before := append([]float64(nil), f()...)
	k[(s.T-1)*s.KV*s.P] += 1
	after := f()
	require.Equal(t, before[:(s.T-1)*s.H*s.P], after[:(s.T-1)*s.H*s.P])
	require.NotEqual(t, before[(s.T-1)*s.H*s.P:s.T*s.H*s.P], after[(s.T-1)*s.H*s.P:s.T*s.H*s.P])
}

func TestEmbeddingAndLossGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	ids := []int32{3, 0, 3, 1, 3}
	w, y := normal(r, 5*4), make([]float64, len(ids)*4)
	checkGrad(t, "embedding", w, func() []float64 { Embedding(y, w, ids, 4); return y }, func(dy []float64) []float64 {
		dw := make([]float64, len(w))
		EmbeddingBackward(dw, dy, ids, 4, inOrder)
		return dw
	})
	v := 6
	logits, targets := normal(r, 5*v), []int32{0, 5, -1, 2, 2}
	loss, lse := make([]float64, 5), make([]float64, 5)
	total := func() []float64 {
		CrossEntropy(loss, lse, logits, targets, v, inOrder(v))
		return []float64{Sum(inOrder(5), loss, 1)}
	}
	checkGrad(t, "cross-entropy", logits, total, func(dy []float64) []float64 {
		d := make([]float64, len(logits))
		CrossEntropyBackward(d, logits, lse, targets, v, 0, dy[0])
		return d
	})
	require.Zero(t, loss[2], "an ignored target has no loss")
}

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
	checkGrad(t, "gather", s, func() []float64 { Gather(g, s, index, e, k); return g }, func(dy []float64) []float64 {
		d := make([]float64, len(s))
		GatherBackward(d, dy, index, e, k)
		return d
	})
	p, sum := make([]float64, rows*k), make([]float64, rows)
	Gather(g, s, index, e, k)
	checkGrad(t, "normalize", g, func() []float64 { Normalize(p, sum, g, k, 2.5, inOrder(k)); return p }, func(dy []float64) []float64 {
		d := make([]float64, len(g))
		NormalizeBackward(d, dy, g, sum, k, 2.5, inOrder(k))
		return d
	})
	share := make([]float64, rows*e)
	checkGrad(t, "share", s, func() []float64 { ProbShare(share, s, e, inOrder(e)); return share }, func(dy []float64) []float64 {
		d := make([]float64, len(s))
		ProbShareBackward(d, dy, s, e, inOrder(e))
		return d
	})
	counts := []int32{3, 1, 2, 4, 1, 1}
	checkGrad(t, "aux loss", s, func() []float64 {
		return []float64{AuxLoss(s, counts, e, 3, 0.7, inOrder, inOrder(e), inOrder(3), nil)}
	}, func(dy []float64) []float64 {
		d := make([]float64, len(s))
		AuxLossBackward(d, counts, e, 0.7, dy[0])
		return d
	})
	checkGrad(t, "z loss", s, func() []float64 { return []float64{ZLoss(s, e, 0.3, inOrder(e), inOrder(rows))} }, func(dy []float64) []float64 {
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
	x, w1, w2, p := normal(r, rows*d), normal(r, e*d*f), normal(r, e*f*d), normal(r, rows)
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
	checkGrad(t, "dx", x, forward, func(dy []float64) []float64 { g, _, _, _ := backward(dy); return g })
	checkGrad(t, "dw1", w1, forward, func(dy []float64) []float64 { _, g, _, _ := backward(dy); return g })
	checkGrad(t, "dw2", w2, forward, func(dy []float64) []float64 { _, _, g, _ := backward(dy); return g })
	checkGrad(t, "dprob", p, forward, func(dy []float64) []float64 { _, _, _, g := backward(dy); return g })
}

func TestPermuteGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	index := []int32{2, 0, 1, 2, 0, 1} // 3 tokens, 2 slots, 3 experts
	order, inverse, offsets := make([]int32, 6), make([]int32, 6), make([]int32, 4)
	Permute(order, inverse, offsets, index, 3, 2)
	require.Equal(t, []int32{1, 4, 2, 5, 0, 3}, order, "expert-major, token-ascending (docs/facts.md, Model)")
	require.Equal(t, []int32{0, 2, 4, 6}, offsets)
	x, y := normal(r, 3*4), make([]float64, 6*4)
	checkGrad(t, "dispatch", x, func() []float64 { GatherRows(y, x, order, 2, 4); return y }, func(dy []float64) []float64 {
		dx := make([]float64, len(x))
		CombineSlots(dx, dy, inverse, 2, 4, inOrder(2))
		return dx
	})
	rows, z := normal(r, 6*4), make([]float64, 3*4)
	checkGrad(t, "combine", rows, func() []float64 { CombineSlots(z, rows, inverse, 2, 4, inOrder(2)); return z }, func(dy []float64) []float64 {
		d := make([]float64, len(rows))
		GatherRows(d, dy, order, 2, 4)
		return d
	})
}
