package moe

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel"
	"firstbit/kernel/check"
	"firstbit/lowp"
	"firstbit/reduce"
)

// awkward are scores full of ties, with NaN and infinities among them.
func awkward(r *rand.Rand, n int) []float32 {
	values := []float32{0, float32(math.Copysign(0, -1)), 1, 2, -3, float32(math.NaN()), float32(math.Inf(-1)), float32(math.Inf(1))}
	x := make([]float32, n)
	for i := range x {
		x[i] = values[r.IntN(len(values))]
	}
	return x
}

// A group's score is the tree of its plan over its sorted best, for random and awkward scores, with and without bias.
func TestGroupScoresAreTheirDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for _, order := range check.Orders {
		for _, s := range [][3]int{{6, 2, 1}, {6, 2, 3}, {8, 4, 2}, {40, 2, 19}, {7, 1, 7}, {5, 5, 1}} { // experts, groups, best
			e, g, n := s[0], s[1], s[2]
			for i, scores := range [][]float32{check.Random(r, 3*e), awkward(r, 3*e)} {
				bias := check.Random(r, e)
				if i == 1 {
					bias = nil
				}
				got := make([]float32, 3*g)
				groupScores(got, scores, bias, e, g, n, foldOf(order, n))
				for at := range got {
					want := reduce.MustOrder(order).Tree(n).Sum(bestOf(scores, bias, e, g, n, at), lowp.FP32)
					if want != want {
						require.True(t, got[at] != got[at], "NaN")
						continue
					}
					check.SameBits(t, []float32{want}, got[at:at+1], "%v by %s, group %d", s, order, at)
				}
			}
		}
	}
	// Negative control: another order is another sum.
	x, seq, reverse := check.Random(r, 64), make([]float32, 1), make([]float32, 1)
	groupScores(seq, x, nil, 64, 1, 60, foldOf("seq", 60))
	groupScores(reverse, x, nil, 64, 1, 60, foldOf("pairwise", 60))
	require.NotEqual(t, seq, reverse)
}

// bestOf is the n largest of score + bias of one group, the largest first.
func bestOf(scores, bias []float32, e, g, n, at int) []float32 {
	row, group := at/g, at%g
	x := slices.Clone(scores[row*e+group*e/g:][:e/g])
	for i := range bias[min(len(bias), group*e/g):min(len(bias), (group+1)*e/g)] {
		x[i] += bias[group*e/g+i]
	}
	sorted := sorted(x, tieLow)
	best := make([]float32, n)
	for i := range best {
		best[i] = x[sorted[i]]
	}
	return best
}

// topKOfGroups is a sort of the experts of kept groups alone; with all groups kept it is topK.
func TestTopKOfGroupsIsItsDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	for _, s := range [][3]int{{6, 3, 2}, {8, 4, 1}, {70, 5, 3}, {64, 2, 1}, {9, 3, 3}} { // experts, groups, kept
		e, g, nkept := s[0], s[1], s[2]
		for _, tie := range []tie{tieLow, tieNaive} {
			scores, kept := awkward(r, 3*e), make([]int32, 0, 3*nkept)
			for range 3 {
				for _, group := range r.Perm(g)[:nkept] {
					kept = append(kept, int32(group))
				}
			}
			for k := 1; k <= nkept*e/g; k++ {
				index := make([]int32, 3*k)
				topKOfGroups(index, scores, nil, kept, e, g, k, tie)
				for row := range 3 {
					want := slices.DeleteFunc(sorted(scores[row*e:][:e], tie), func(j int32) bool {
						return !slices.Contains(kept[row*nkept:][:nkept], j/int32(e/g))
					})[:k]
					require.Equal(t, want, index[row*k:][:k], "%d of %v, rule %d", k, s, tie)
				}
				if nkept == g {
					plain := make([]int32, 3*k)
					topK(plain, scores, nil, e, k, tie)
					require.Equal(t, plain, index)
				}
			}
		}
	}
	// A dropped group's bias cannot bring it back.
	index := make([]int32, 2)
	topKOfGroups(index, []float32{1, 2, 3, 4}, []float32{0, 0, 100, 100}, []int32{0}, 4, 2, 2, tieLow)
	require.Equal(t, []int32{1, 0}, index)
}

func TestSoftmaxTopKGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	const rows, k = 4, 3
	l, p, w := check.Normal(r, rows*k), make([]float64, rows*k), make([]float64, rows*k)
	check.Gradient(t, "softmax of top-k", l, func() []float64 { softmaxTopK(p, w, l, k, 2.5, inOrder(k)); return p }, func(dy []float64) []float64 {
		d := make([]float64, len(l))
		softmaxTopKBackward(d, dy, w, k, 2.5, inOrder(k))
		return d
	})
	for i := range rows {
		require.InDelta(t, 2.5, kernel.Sum(inOrder(k), p[i*k:], 1), 1e-14)
	}
}

// The sums of softmax over slots, forward and backward, by their plan.
func TestSoftmaxTopKAddsByItsPlan(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 28))
	const n = 19
	backward := map[uint32]bool{}
	l, dp := check.Random(r, n), check.Random(r, n)
	for _, order := range check.Orders {
		f, tree := foldOf(order, n), reduce.MustOrder(order).Tree(n)
		p, w, d := make([]float32, n), make([]float32, n), make([]float32, n)
		softmaxTopK(p, w, l, n, 1.5, f)
		e := exps(l)
		sum := tree.Sum(e, lowp.FP32)
		products, scaled := make([]float32, n), make([]float32, n)
		for i := range p {
			check.SameBits(t, []float32{e[i] / sum, float32(e[i]/sum) * 1.5}, []float32{w[i], p[i]}, "by %s", order)
			scaled[i] = dp[i] * 1.5
			products[i] = scaled[i] * w[i]
		}
		dot := tree.Sum(products, lowp.FP32)
		softmaxTopKBackward(d, dp, w, n, 1.5, f)
		for i := range d {
			check.SameBits(t, []float32{w[i] * (scaled[i] - dot)}, d[i:i+1], "gradient by %s", order)
		}
		backward[math.Float32bits(dot)] = true
	}
	require.Greater(t, len(backward), 2, "negative control: the orders differ")
}

// Each sum of the loss over two sequences, asked as a black box: leaves in the second sequence.
func TestAuxLossOverSequencesAddsByItsPlan(t *testing.T) {
	for _, order := range check.Orders {
		for _, n := range []int{1, 7, 19} {
			f, tree := foldOf(order, n), reduce.MustOrder(order).Tree(n)
			same := func(int) kernel.Fold { return f }
			at := func(what string) string { return fmt.Sprintf("%s by %s over %d", what, order, n) }
			second := func(x []float32, e int) []float32 { return append(make([]float32, len(x)*e), x...) }
			check.Order(t, at("CTAs"), n, tree, lowp.FP32, func(x []float32) float32 {
				return auxLoss(second(x, 1), []int32{2, 2}, 1, n, 1, inOrder, inOrder(2), f, nil)
			})
			check.Order(t, at("positions"), n, tree, lowp.FP32, func(x []float32) float32 {
				return auxLoss(second(x, 1), []int32{2, 2}, 1, 1, 1, same, inOrder(2), inOrder(1), nil)
			})
		}
		// Columns: n sequences of one position, each with one expert.
		const n = 16
		f := foldOf(order, n)
		counts := make([]int32, n)
		for i := range counts {
			counts[i] = n // against the division by n sequences, exactly
		}
		check.Order(t, "columns by "+order, n, reduce.MustOrder(order).Tree(n), lowp.FP32, func(x []float32) float32 {
			return auxLoss(x, counts, 1, 1, 1, inOrder, f, inOrder(1), nil)
		})
	}
}

// Over sequences the loss is the mean of each one's, and its gradient is exact.
func TestAuxLossOverSequences(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 30))
	const b, s, e = 3, 5, 4
	share, counts := check.Normal(r, b*s*e), make([]int32, b*e)
	for i := range counts {
		counts[i] = int32(r.IntN(9))
	}
	loss := func() []float64 {
		return []float64{auxLoss(share, counts, e, 2, 0.7, inOrder, inOrder(b*e), inOrder(2), nil)}
	}
	mean := 0.0
	for i := range b {
		mean += auxLoss(share[i*s*e:][:s*e], counts[i*e:][:e], e, 2, 0.7, inOrder, inOrder(e), inOrder(2), nil) / b
	}
	require.InDelta(t, mean, loss()[0], 1e-12)
	check.Gradient(t, "aux loss over sequences", share, loss, func(dy []float64) []float64 {
		d := make([]float64, len(share))
		auxLossBackward(d, counts, e, 0.7, dy[0])
		return d
	})
}

func BenchmarkGroupScores(b *testing.B) {
	x := check.Random(rand.New(rand.NewPCG(1, 1)), 512*64)
	sums, f := make([]float32, 512*8), inOrder(2)
	check.Bytes(b, len(x), func() { groupScores(sums, x, nil, 64, 8, 2, f) })
}

func BenchmarkTopKOfGroups(b *testing.B) {
	x := check.Random(rand.New(rand.NewPCG(1, 1)), 512*64)
	index, kept := make([]int32, 512*8), make([]int32, 512*4)
	for i := range kept {
		kept[i] = int32(i % 8)
	}
	check.Bytes(b, len(x), func() { topKOfGroups(index, x, nil, kept, 64, 8, 8, tieLow) })
}

func BenchmarkSoftmaxTopK(b *testing.B) {
	x := check.Random(rand.New(rand.NewPCG(1, 1)), 512*8)
	p, w, d, f := make([]float32, len(x)), make([]float32, len(x)), make([]float32, len(x)), inOrder(8)
	b.Run("forward", func(b *testing.B) { check.Bytes(b, len(x), func() { softmaxTopK(p, w, x, 8, 2.5, f) }) })
	b.Run("backward", func(b *testing.B) { check.Bytes(b, len(x), func() { softmaxTopKBackward(d, x, w, 8, 2.5, f) }) })
}

func BenchmarkAuxLossOverSequences(b *testing.B) {
	x := check.Random(rand.New(rand.NewPCG(1, 1)), 512*16)
	f := inOrder(8 * 16)
	check.Bytes(b, len(x), func() { auxLoss(x, make([]int32, 8*16), 16, 8, 1, inOrder, f, inOrder(8), nil) })
}
