package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/reduce"
)

// some draws which of n tokens are present, ascending.
func some(r *rand.Rand, n int, share float64) []int32 {
	var at []int32
	for i := range n {
		if r.Float64() < share {
			at = append(at, int32(i))
		}
	}
	return at
}

// grafted is the sum of the values of the tokens that are present by the tree of all n tokens, from which the others are taken out.
func grafted(order string, n int, present []int32, value func(i int) float32, acc lowp.Format) float32 {
	inner, x := make([]reduce.Tree, n), make([]float32, n)
	for i := range inner {
		inner[i] = reduce.Empty
	}
	for i, token := range present {
		inner[token] = reduce.Tree{Leaf: int(token)}
		x[token] = value(i)
	}
	return reduce.Graft(reduce.MustOrder(order).Tree(n), inner).Sum(x, acc)
}

// What is absent is taken out of the tree: by every order, in wide and narrow formats, however few are present.
func TestPresentSumsAreTheirGraftedTree(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 1))
	const d, m = 3, 5
	for _, order := range orders {
		for _, n := range []int{1, 7, 32, 61} {
			for _, acc := range []lowp.Format{lowp.FP32, lowp.BF16} {
				f := Fold{Program: reduce.MustOrder(order).Program(n), Acc: acc}
				for _, share := range []float64{0, 0.1, 0.5, 1} {
					at := fmt.Sprintf("%s over %d in %s, %g present", order, n, acc, share)
					present, x := some(r, n, share), random32(r, n*m)
					want := make([]float32, d)
					for j := range want {
						want[j] = grafted(order, n, present, func(i int) float32 { return x[int(present[i])*m+j] }, acc)
					}
					got := random32(r, d)
					SumPresent(f, got, x, m, present)
					requireSameBits(t, want, got, "%s", at)
				}
				checkGroupedAll(t, r, order, n, f)
				checkEmbeddingAll(t, r, order, n, f)
			}
		}
	}
}

// checkGroupedAll compares GroupedMatMulWeightAll with the grafted trees; each token has two of four experts, the last none.
func checkGroupedAll(t *testing.T, r *rand.Rand, order string, n int, f Fold) {
	t.Helper()
	const e, k, m, d = 4, 2, 5, 3
	index := make([]int32, 0, n*k)
	for range n {
		first := r.IntN(e - 1)
		index = append(index, int32(first), int32((first+1)%(e-1)))
	}
	sorted, inverse, offsets := make([]int32, n*k), make([]int32, n*k), make([]int32, e+1)
	Permute(sorted, inverse, offsets, index, e, k)
	token := make([]int32, n*k)
	for i, slot := range sorted {
		token[i] = slot / k
	}
	x, dy := random32(r, n*k*m), random32(r, n*k*d)
	want, got := make([]float32, e*m*d), random32(r, e*m*d)
	for expert := range e {
		lo := int(offsets[expert])
		for i := range m {
			for j := range d {
				want[(expert*m+i)*d+j] = grafted(order, n, token[lo:offsets[expert+1]], func(at int) float32 {
					return float32(x[(lo+at)*m+i] * dy[(lo+at)*d+j])
				}, f.Acc)
			}
		}
	}
	GroupedMatMulWeightAll(got, x, dy, offsets, token, m, d, f)
	requireSameBits(t, want, got, "grouped by %s over %d in %s", order, n, f.Acc)
}

func checkEmbeddingAll(t *testing.T, r *rand.Rand, order string, n int, f Fold) {
	t.Helper()
	const v, d = 5, 3
	ids, dy := make([]int32, n), random32(r, n*d)
	present := make([][]int32, v)
	for i := range ids {
		ids[i] = int32(r.IntN(v - 1))
		present[ids[i]] = append(present[ids[i]], int32(i))
	}
	want, got := make([]float32, v*d), random32(r, v*d)
	for i := range want {
		want[i] = grafted(order, n, present[i/d], func(at int) float32 { return dy[int(present[i/d][at])*d+i%d] }, f.Acc)
	}
	EmbeddingBackwardAll(got, dy, ids, d, f)
	requireSameBits(t, want, got, "embedding by %s over %d in %s", order, n, f.Acc)
}

const (
	shardT = 8 // tokens of a sequence
	shardB = 8 // sequences
)

// A shardable is a sum over tokens, asked of the sequences from lo to hi.
type shardable func(lo, hi int) []float32

// shardables are the sums over tokens as the canonical order has them, and, as controls, as it must not.
func shardables(r *rand.Rand) (canonical, controls map[string]shardable) {
	const rows, e, d = shardB * shardT, 4, 3
	x, y, aLog, logits := random32(r, rows*d), random32(r, rows*d), random32(r, d), random32(r, rows*e)
	ids, counts := make([]int32, rows), make([]int32, shardB*e)
	for i := range ids {
		ids[i] = int32(r.IntN(5))
	}
	for i := range counts {
		counts[i] = int32(r.IntN(5))
	}
	cut := func(lo, hi int) (f Fold, xs, ys []float32, at []int32) {
		n := (hi - lo) * shardT
		return Fold{Program: reduce.Blocked(shardT).Program(n)}, x[lo*shardT*d:][:n*d], y[lo*shardT*d:][:n*d], ids[lo*shardT:][:n]
	}
	mean := func(v float32, lo, hi int) []float32 { return []float32{v * float32(hi-lo)} } // back to a sum, exactly
	canonical = map[string]shardable{
		"product": func(lo, hi int) []float32 {
			f, xs, ys, at := cut(lo, hi)
			dw := make([]float32, d*d)
			MatMul(dw, d, RowMajor(xs, d).T(), RowMajor(ys, d), d, d, len(at), f)
			return dw
		},
		"embedding": func(lo, hi int) []float32 {
			f, xs, _, at := cut(lo, hi)
			dw := make([]float32, 5*d)
			EmbeddingBackwardAll(dw, xs, at, d, f)
			return dw
		},
		"grouped product": func(lo, hi int) []float32 { return groupedShard(cut, lo, hi, true) },
		"decay": func(lo, hi int) []float32 {
			f, xs, ys, _ := cut(lo, hi)
			da := make([]float32, d)
			DecayBackwardByToken(da, xs, ys, aLog, f)
			return da
		},
		"z loss": func(lo, hi int) []float32 {
			f, _, _, at := cut(lo, hi)
			return mean(ZLossByToken(logits[lo*shardT*e:][:len(at)*e], e, 0.3, inOrder(e), f), lo, hi)
		},
		"aux loss": func(lo, hi int) []float32 {
			return mean(AuxLossBySequence(logits[lo*shardT*e:hi*shardT*e], counts[lo*e:hi*e], e, 3, 0.7, inOrder, inOrder(e), inOrder(3),
				foldOf("pairwise", hi-lo), nil), lo, hi)
		},
	}
	controls = map[string]shardable{
		"embedding": func(lo, hi int) []float32 {
			_, xs, _, at := cut(lo, hi)
			dw := make([]float32, 5*d)
			EmbeddingBackward(dw, xs, at, d, func(n int) Fold { return Fold{Program: reduce.Blocked(shardT).Program(n)} })
			return dw
		},
		"grouped product": func(lo, hi int) []float32 { return groupedShard(cut, lo, hi, false) },
		"decay": func(lo, hi int) []float32 {
			f, xs, ys, _ := cut(lo, hi)
			da := make([]float32, d)
			DecayBackward(da, xs, ys, aLog, f)
			return da
		},
		"z loss": func(lo, hi int) []float32 {
			f, _, _, at := cut(lo, hi)
			return mean(ZLoss(logits[lo*shardT*e:][:len(at)*e], e, 0.3, inOrder(e), f), lo, hi)
		},
		"aux loss": func(lo, hi int) []float32 {
			return mean(AuxLoss(logits[lo*shardT*e:hi*shardT*e], counts[lo*e:hi*e], e, 3, 0.7, inOrder, inOrder((hi-lo)*e), inOrder(3), nil), lo, hi)
		},
	}
	return canonical, controls
}

// groupedShard is the weight gradients of five experts, of which a token has one.
func groupedShard(cut func(lo, hi int) (Fold, []float32, []float32, []int32), lo, hi int, all bool) []float32 {
	const e, d = 5, 3
	f, x, y, ids := cut(lo, hi)
	n := len(ids)
	token, inverse, offsets := make([]int32, n), make([]int32, n), make([]int32, e+1)
	Permute(token, inverse, offsets, ids, e, 1)
	xs, ys, dw := make([]float32, n*d), make([]float32, n*d), make([]float32, e*d*d)
	GatherRows(xs, x, token, 1, d)
	GatherRows(ys, y, token, 1, d)
	if all {
		GroupedMatMulWeightAll(dw, xs, ys, offsets, token, d, d, f)
	} else {
		GroupedMatMulWeight(dw, xs, ys, offsets, d, d, func(n int) Fold { return Fold{Program: reduce.Blocked(shardT).Program(n)} })
	}
	return dw
}

// joined is the sum over all sequences made of so many shards, each by itself, joined pairwise as a collective joins ranks.
func joined(sum shardable, shards int) []float32 {
	per := shardB / shards
	in := make([][]float32, shards)
	for i := range in {
		in[i] = sum(i*per, (i+1)*per)
	}
	y := make([]float32, len(in[0]))
	SumMembers(foldOf("pairwise", shards), y, in, 0)
	return y
}

// A sum over tokens is the same however the sequences are dealt to shards. The plain forms of the kernels are not.
func TestShardsAreSubtrees(t *testing.T) {
	differs := map[string]bool{}
	for seed := range uint64(30) {
		canonical, controls := shardables(rand.New(rand.NewPCG(43, seed)))
		for _, shards := range []int{2, 4, 8} {
			for name, sum := range canonical {
				requireSameBits(t, joined(sum, 1), joined(sum, shards), "%s over %d shards", name, shards)
			}
			for name, sum := range controls {
				for i, v := range joined(sum, 1) {
					differs[name] = differs[name] || v != joined(sum, shards)[i]
				}
			}
		}
	}
	require.Len(t, differs, 5)
	for name, d := range differs {
		require.True(t, d, "negative control: %s", name)
	}
}

// The forms that shard compute what the plain ones do.
func TestFormsByTokenAreTheSameFunctions(t *testing.T) {
	r := rand.New(rand.NewPCG(44, 1))
	const rows, e, b = 12, 4, 3
	x, dt, aLog := normal(r, rows*e), normal(r, rows*e), normal(r, e)
	want, got := make([]float64, e), make([]float64, e)
	DecayBackward(want, x, dt, aLog, inOrder(rows))
	DecayBackwardByToken(got, x, dt, aLog, inOrder(rows))
	require.InDeltaSlice(t, want, got, 1e-12)
	require.InDelta(t, ZLoss(x, e, 0.3, inOrder(e), inOrder(rows)), ZLossByToken(x, e, 0.3, inOrder(e), inOrder(rows)), 1e-12)
	require.NotEqual(t, ZLoss(x, e, 0.3, inOrder(e), inOrder(rows)), ZLossByToken(x, e, 0.31, inOrder(e), inOrder(rows)))
	counts := []int32{3, 0, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}
	require.InDelta(t, AuxLoss(x, counts, e, 2, 0.7, inOrder, inOrder(b*e), inOrder(2), nil),
		AuxLossBySequence(x, counts, e, 2, 0.7, inOrder, inOrder(e), inOrder(2), inOrder(b), nil), 1e-12)
	require.NotZero(t, want[0])
	require.InDelta(t, -libm.ExpOf(aLog[0]), want[0]/Dot(inOrder(rows), x, e, dt, e), 1e-12)
}
