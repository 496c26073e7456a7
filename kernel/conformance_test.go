package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
	"firstbit/reduce"
)

// Grouped products by their plan: an expert in the middle, an element inside a tile, both layouts of w.
func TestGroupedMatMulAddsByItsPlan(t *testing.T) {
	offsets := []int32{0, 2, 7, 7, 9} // 5 rows for expert 1, none for expert 2
	for _, order := range orders {
		for _, n := range []int{1, 7, 19} {
			for _, transposed := range []bool{false, true} {
				f := foldOf(order, n)
				sum := func(x []float32) float32 { // row 5 (expert 1), column 2 of 3
					y, rows := make([]float32, 9*3), make([]float32, 9*n)
					copy(rows[5*n:], x)
					GroupedMatMul(y, rows, ones32(4*n*3), offsets, n, 3, transposed, f)
					return y[5*3+2]
				}
				requireOrder(t, fmt.Sprintf("grouped by %s over %d transposed %v", order, n, transposed), n, reduce.MustOrder(order).Tree(n), lowp.FP32, sum)
			}
		}
	}
}

// The epilogue's columns by n, whatever the tiles and walks: a sub-tile of any order inside a tile of any direction.
func TestDProbColumnsAddByTheirPlan(t *testing.T) {
	til := Tiling{M: 4, N: 16, Sub: 5, Grid: 1} // tiles of 16 and 11 columns; sub-tiles of 5, the last ones 1
	const f, row = 27, 2
	for _, n := range []string{"seq", "reverse", "pairwise", "lanes(4)", "splitk(2)"} {
		for walk := range 4 {
			reverse := []bool{walk&1 > 0, walk&2 > 0}
			want := DProbTree(f, til, reduce.MustOrder(n), reduce.Reverse, reverse)
			requireOrder(t, fmt.Sprintf("dprob n %s walk %02b", n, walk), f, want, lowp.FP32, func(x []float32) float32 {
				tiles := til.Tiles([]int32{0, 3}, f) // three rows in one block
				for i := range tiles {
					tiles[i].Reverse = reverse[i]
				}
				acc, h, dprob, dh := make([]float32, 3*f), ones32(3*f), make([]float32, 3), make([]float32, 3*f)
				copy(acc[row*f:], x)
				GroupedDProb(dprob, dh, acc, h, ones32(3), f, til, tiles, func(k int) Fold { return foldOf(n, k) },
					func(int) Fold { return foldOf("reverse", 2) }, nil)
				return dprob[row]
			})
		}
	}
	// Negative control: another walk is another tree.
	require.False(t, DProbTree(f, til, reduce.Seq, reduce.Seq, []bool{false, true}).Equal(DProbTree(f, til, reduce.Seq, reduce.Seq, []bool{false, false})))
}

// dv adds the queries of the heads of a group, heads outer, by its own order.
func TestAttentionQueriesAddByTheirPlan(t *testing.T) {
	const heads, n = 2, 4 // two query heads on one key-value head, four queries
	for _, order := range orders {
		folds := AttentionFolds{P: inOrder(1), Keys: inOrder(n), DQ: inOrder(n), Queries: foldOf(order, heads*n)}
		s := AttentionShape{B: 1, T: n, H: heads, KV: 1, P: 1}
		requireOrder(t, "dv by "+order, heads*n, reduce.MustOrder(order).Tree(heads*n), lowp.FP32, func(x []float32) float32 {
			do, probs := make([]float32, n*heads), make([]float32, heads*n*n)
			for h := range heads {
				for q := range n {
					do[q*heads+h] = x[h*n+q]
					probs[(h*n+q)*n] = 1 // every query attends to key 0 alone
				}
			}
			dq, dk, dv := make([]float32, n*heads), make([]float32, n), make([]float32, n)
			AttentionBackward(dq, dk, dv, do, ones32(n*heads), ones32(n), make([]float32, n), probs, s, 1, folds)
			return dv[0]
		})
	}
}

// Kernels whose sums stand between functions that are not linear, against the tree itself: each row's
// value rebuilt from Tree.Sum of its terms.
func TestSumsInsideKernelsFollowTheirPlan(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const n = 19
	for _, order := range orders {
		f, tree := foldOf(order, n), reduce.MustOrder(order).Tree(n)
		x, w, y := random32(r, n), random32(r, n), make([]float32, n)

		Softmax(y, x, n, f)
		e := exps(x)
		sum := tree.Sum(e, lowp.FP32)
		for i := range y {
			requireSameBits(t, []float32{e[i] / sum}, y[i:i+1], "softmax by %s", order)
		}
		loss, lse := make([]float32, 1), make([]float32, 1)
		CrossEntropy(loss, lse, x, []int32{3}, n, f)
		p := make([]float32, n)
		CrossEntropyBackward(p, x, lse, []int32{3}, n, 0, 1)
		require.InDelta(t, float64(e[0]/sum), float64(p[0]), 1e-6, "cross-entropy by %s", order)

		squares, products := make([]float32, n), make([]float32, n)
		for i := range x {
			squares[i], products[i] = x[i]*x[i], x[i]*w[i]
		}
		rstd := make([]float32, 1)
		RMSNorm(y, rstd, x, w, n, 1e-5, f)
		want := 1 / float32(math.Sqrt(float64(tree.Sum(squares, lowp.FP32)/n+1e-5)))
		requireSameBits(t, []float32{want}, rstd, "rmsnorm by %s", order)
		requireSameBits(t, []float32{tree.Sum(products, lowp.FP32)}, []float32{Dot(f, x, 1, w, 1)}, "dot by %s", order)
		requireSameBits(t, []float32{tree.Sum(squares, lowp.FP32)}, []float32{SumSquares(x, f)}, "sum of squares by %s", order)

		share, norm, denominator := make([]float32, n), make([]float32, n), make([]float32, 1)
		total := tree.Sum(e, lowp.FP32) + 1e-20
		ProbShare(share, e, n, f)
		Normalize(norm, denominator, e, n, 1, f)
		for i := range share {
			requireSameBits(t, []float32{e[i] / total, e[i] / total}, []float32{share[i], norm[i]}, "shares by %s", order)
		}
	}
	// Negative control: the orders above do give different sums.
	seen := map[uint32]bool{}
	x := random32(r, 500)
	for _, order := range orders {
		seen[math.Float32bits(Sum(foldOf(order, 500), x, 1))] = true
	}
	require.Greater(t, len(seen), 4)
}

// exps are the exponentials softmax adds, by Softmax of one element beside the row's largest.
func exps(x []float32) []float32 {
	e, m := make([]float32, len(x)), slices.Max(x)
	for i, v := range x {
		// logSumExp's buffer holds exp(x − m).
		pair := make([]float32, 2)
		logSumExp(pair, []float32{v, m}, inOrder(2))
		e[i] = pair[0]
	}
	return e
}

// Special values reach the same bits as the definition: signed zeros, subnormals, overflow; an arithmetic NaN is one class
// (docs/facts.md, Go).
func TestMatMulOfSpecialValues(t *testing.T) {
	special := []float32{0, float32(math.Copysign(0, -1)), 1e-45, -1e-40, 3e38, -3e38, float32(math.Inf(1)), 1, -1, 0x1p-126}
	r := rand.New(rand.NewPCG(7, 8))
	for _, order := range orders {
		for range 20 {
			m, n, k := 1+r.IntN(6), 1+r.IntN(5), 1+r.IntN(7)
			a, b := make([]float32, m*k), make([]float32, k*n)
			for i := range a {
				a[i] = special[r.IntN(len(special))]
			}
			for i := range b {
				b[i] = special[r.IntN(len(special))]
			}
			got, want := make([]float32, m*n), make([]float32, m*n)
			f := foldOf(order, k)
			MatMul(got, n, RowMajor(a, k), RowMajor(b, n), m, n, k, f)
			MatMulNaive(want, n, RowMajor(a, k), RowMajor(b, n), m, n, k, f)
			for i := range got {
				if got[i] != got[i] && want[i] != want[i] {
					got[i], want[i] = 0, 0
				}
			}
			requireSameBits(t, want, got, "%d×%d×%d by %s", m, n, k, order)
		}
	}
	empty := make([]float32, 6)
	MatMul(empty, 2, RowMajor([]float32{}, 0), RowMajor([]float32{}, 2), 3, 2, 0, inOrder(0))
	for _, v := range empty {
		require.Zero(t, v)
		require.True(t, math.Signbit(float64(v)), "the empty sum is −0")
	}
	// 0·NaN is not skipped.
	nan, one := []float32{float32(math.NaN())}, []float32{0}
	MatMul(one, 1, RowMajor(one, 1), RowMajor(nan, 1), 1, 1, 1, inOrder(1))
	require.True(t, math.IsNaN(float64(one[0])))
}

// A product inside a larger array writes its own elements and no others.
func TestMatMulKeepsToItsRows(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, size := range [][4]int{{5, 3, 4, 9}, {70, 61, 40, 64}} { // the second is split over goroutines
		m, n, k, ld := size[0], size[1], size[2], size[3]
		a, b := random32(r, m*k), random32(r, k*n)
		c := make([]float32, m*ld)
		fill(c, 7)
		MatMul(c, ld, RowMajor(a, k), RowMajor(b, n), m, n, k, inOrder(k))
		want := make([]float32, m*n)
		MatMulNaive(want, n, RowMajor(a, k), RowMajor(b, n), m, n, k, inOrder(k))
		for i := range m {
			requireSameBits(t, want[i*n:][:n], c[i*ld:][:n], "row %d", i)
			for _, v := range c[i*ld+n : (i+1)*ld] {
				require.Equal(t, float32(7), v, "beside row %d", i)
			}
		}
	}
	require.Panics(t, func() {
		MatMul(make([]float32, 1), 1, RowMajor(ones32(2), 2), RowMajor(ones32(2), 1), 1, 1, 2, inOrder(3))
	})
}

// The check that holds MatMul to its definition notices another order, format or fusing.
func TestMatMulNegativeControl(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	const n = 33
	a, b := random32(r, n*n), random32(r, n*n)
	product := func(f Fold) []float32 {
		c := make([]float32, n*n)
		MatMul(c, n, RowMajor(a, n), RowMajor(b, n), n, n, n, f)
		return c
	}
	base := product(inOrder(n))
	for name, f := range map[string]Fold{
		"order": foldOf("pairwise", n), "reverse": foldOf("reverse", n), "bf16": {Program: reduce.Seq.Program(n), Acc: lowp.BF16},
		"fp16": {Program: reduce.Seq.Program(n), Acc: lowp.FP16}, "fma": {Program: reduce.Seq.Program(n), Acc: lowp.FP32, FMA: true},
	} {
		require.NotEqual(t, base, product(f), name)
	}
	require.Equal(t, base, product(foldOf("given("+indices(n)+")", n)), "the identity, written out")
}

func indices(n int) string { s := fmt.Sprint(slices.Collect(upTo(n))); return s[1 : len(s)-1] }

func upTo(n int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// float64 takes no notice of the accumulate format or of fusing: it is for references.
func TestFloat64IsPlain(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	const m, n, k = 9, 7, 33
	a, b := normal(r, m*k), normal(r, k*n)
	for _, order := range orders {
		got, want := make([]float64, m*n), make([]float64, m*n)
		f := foldOf(order, k)
		MatMulNaive(want, n, RowMajor(a, k), RowMajor(b, n), m, n, k, f)
		f.Acc, f.FMA = lowp.BF16, true
		MatMul(got, n, RowMajor(a, k), RowMajor(b, n), m, n, k, f)
		require.Equal(t, want, got, order)
	}
}

// AdamW in float32 rounds every operation once, in the order written.
func TestAdamWRounding(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	w, m, v, g := random32(r, 50), random32(r, 50), random32(r, 50), random32(r, 50)
	h := AdamWStep{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1, Bias1: 0.1, Bias2: 0.05, GradScale: 0.3}
	for i := range v {
		v[i] = v[i] * v[i]
	}
	w2, m2, v2 := slices.Clone(w), slices.Clone(m), slices.Clone(v)
	AdamW(w, m, v, g, h)
	for i := range w {
		one := adamwOf(w2[i], m2[i], v2[i], g[i], h)
		requireSameBits(t, one[:], []float32{w[i], m[i], v[i]}, "element %d", i)
	}
}

// adamwOf is one element, each rounding a statement of its own.
func adamwOf(w, m, v, g float32, h AdamWStep) [3]float32 {
	round := func(x float64) float32 { return float32(x) } // one operation on float32 in float64, rounded: exact for + − × ÷ √
	f := func(x float32) float64 { return float64(x) }
	g = round(f(g) * f(float32(h.GradScale)))
	a, b := round(f(float32(h.Beta1))*f(m)), round(f(float32(1-h.Beta1))*f(g))
	m = round(f(a) + f(b))
	a, b = round(f(float32(h.Beta2))*f(v)), round(f(float32(1-h.Beta2))*f(round(f(g)*f(g))))
	v = round(f(a) + f(b))
	denominator := round(f(round(math.Sqrt(f(v)))) / f(float32(math.Sqrt(h.Bias2))))
	denominator = round(f(denominator) + f(float32(h.Eps)))
	update := round(f(float32(h.LR/h.Bias1)) * f(round(f(m)/f(denominator))))
	w = round(f(w) * f(float32(1-h.LR*h.Decay)))
	return [3]float32{round(f(w) - f(update)), m, v}
}
