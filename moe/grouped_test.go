package moe

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel"
	"firstbit/kernel/check"
	"firstbit/lowp"
	"firstbit/reduce"
)

// Grouped products by their plan: an expert in the middle, an element inside a tile, both layouts of w.
func TestGroupedMatMulAddsByItsPlan(t *testing.T) {
	offsets := []int32{0, 2, 7, 7, 9} // 5 rows for expert 1, none for expert 2
	for _, order := range check.Orders {
		for _, n := range []int{1, 7, 19} {
			for _, transposed := range []bool{false, true} {
				f := foldOf(order, n)
				sum := func(x []float32) float32 { // row 5 (expert 1), column 2 of 3
					y, rows := make([]float32, 9*3), make([]float32, 9*n)
					copy(rows[5*n:], x)
					groupedMatMul(y, rows, check.Ones(4*n*3), offsets, n, 3, transposed, f)
					return y[5*3+2]
				}
				check.Order(t, fmt.Sprintf("grouped by %s over %d transposed %v", order, n, transposed), n, reduce.MustOrder(order).Tree(n), lowp.FP32, sum)
			}
		}
	}
}

// The epilogue's columns by n, whatever the tiles and walks: a sub-tile of any order inside a tile of any direction.
func TestDProbColumnsAddByTheirPlan(t *testing.T) {
	til := tiling{M: 4, N: 16, Sub: 5, Grid: 1} // tiles of 16 and 11 columns; sub-tiles of 5, the last ones 1
	const f, row = 27, 2
	for _, n := range []string{"seq", "reverse", "pairwise", "lanes(4)", "splitk(2)"} {
		for walk := range 4 {
			reverse := []bool{walk&1 > 0, walk&2 > 0}
			want := dProbTree(f, til, reduce.MustOrder(n), reduce.Reverse, reverse)
			check.Order(t, fmt.Sprintf("dprob n %s walk %02b", n, walk), f, want, lowp.FP32, func(x []float32) float32 {
				tiles := til.Tiles([]int32{0, 3}, f) // three rows in one block
				for i := range tiles {
					tiles[i].Reverse = reverse[i]
				}
				acc, h, dprob, dh := make([]float32, 3*f), check.Ones(3*f), make([]float32, 3), make([]float32, 3*f)
				copy(acc[row*f:], x)
				groupedDProb(dprob, dh, acc, h, check.Ones(3), f, til, tiles, func(k int) kernel.Fold { return foldOf(n, k) },
					func(int) kernel.Fold { return foldOf("reverse", 2) }, nil)
				return dprob[row]
			})
		}
	}
	// Negative control: another walk is another tree.
	require.False(t, dProbTree(f, til, reduce.Seq, reduce.Seq, []bool{false, true}).Equal(dProbTree(f, til, reduce.Seq, reduce.Seq, []bool{false, false})))
}

// The epilogue's tree is its tiles' order and each tile's walk, and nothing else.
func TestDProbAddsByItsTiles(t *testing.T) {
	til := tiling{M: 2, N: 8, Sub: 2, Grid: 3}
	const f = 21
	for _, tileOrder := range []string{"seq", "reverse", "given(2 0 1)", "pairwise"} {
		for walk := range 8 {
			reverse := []bool{walk&1 > 0, walk&2 > 0, walk&4 > 0}
			want := dProbTree(f, til, reduce.Seq, reduce.MustOrder(tileOrder), reverse)
			check.Order(t, fmt.Sprintf("dprob tiles %s walk %03b", tileOrder, walk), f, want, lowp.FP32, func(x []float32) float32 {
				tiles := til.Tiles([]int32{0, 1}, f)
				for i := range tiles {
					tiles[i].Reverse = reverse[i]
				}
				dprob, dh := make([]float32, 1), make([]float32, f)
				groupedDProb(dprob, dh, x, check.Ones(f), check.Ones(1), f, til, tiles, inOrder, func(int) kernel.Fold { return foldOf(tileOrder, 3) }, nil)
				return dprob[0]
			})
		}
	}
}

func TestDispatchAlternatesByPlaceInItsCTA(t *testing.T) {
	til := tiling{M: 1, N: 1, Sub: 1, Grid: 2}
	tiles := til.Tiles([]int32{0, 3}, 2)
	til.Dispatch(tiles, nil)
	var static []bool
	for _, x := range tiles {
		static = append(static, x.Reverse)
	}
	require.Equal(t, []bool{false, false, true, true, false, false}, static)
	til.Dispatch(tiles, []int{5, 4, 3, 2, 1, 0})
	require.True(t, tiles[3].Reverse && tiles[2].Reverse && !tiles[5].Reverse)
}

func TestGroupedWeightOfAllIsItsGraftedTree(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 1))
	for _, order := range check.Orders {
		for _, n := range []int{1, 7, 32, 61} {
			for _, acc := range []lowp.Format{lowp.FP32, lowp.BF16} {
				checkGroupedAll(t, r, order, n, kernel.Fold{Program: reduce.MustOrder(order).Program(n), Acc: acc})
			}
		}
	}
}

// checkGroupedAll compares GroupedMatMulWeightAll with the grafted trees; each token has two of four experts, the last none.
func checkGroupedAll(t *testing.T, r *rand.Rand, order string, n int, f kernel.Fold) {
	t.Helper()
	const e, k, m, d = 4, 2, 5, 3
	index := make([]int32, 0, n*k)
	for range n {
		first := r.IntN(e - 1)
		index = append(index, int32(first), int32((first+1)%(e-1)))
	}
	sorted, inverse, offsets := make([]int32, n*k), make([]int32, n*k), make([]int32, e+1)
	kernel.Permute(sorted, inverse, offsets, index, e, k)
	token := make([]int32, n*k)
	for i, slot := range sorted {
		token[i] = slot / k
	}
	x, dy := check.Random(r, n*k*m), check.Random(r, n*k*d)
	want, got := make([]float32, e*m*d), check.Random(r, e*m*d)
	for expert := range e {
		lo := int(offsets[expert])
		for i := range m {
			for j := range d {
				want[(expert*m+i)*d+j] = check.Grafted(order, n, token[lo:offsets[expert+1]], func(at int) float32 {
					return float32(x[(lo+at)*m+i] * dy[(lo+at)*d+j])
				}, f.Acc)
			}
		}
	}
	groupedMatMulWeightAll(got, x, dy, offsets, token, m, d, f)
	check.SameBits(t, want, got, "grouped by %s over %d in %s", order, n, f.Acc)
}

// Sums over tokens as the canonical order has them are the same however the sequences are dealt to shards; the plain forms are not.
func TestShardsAreSubtrees(t *testing.T) { check.Shards(t, shardables) }

func shardables(r *rand.Rand) (canonical, controls map[string]check.Shardable) {
	const rows, e, d, sequence = check.ShardB * check.ShardT, 4, 3, check.ShardT
	x, y, logits := check.Random(r, rows*d), check.Random(r, rows*d), check.Random(r, rows*e)
	ids, counts := make([]int32, rows), make([]int32, check.ShardB*e)
	for i := range ids {
		ids[i] = int32(r.IntN(5))
	}
	for i := range counts {
		counts[i] = int32(r.IntN(5))
	}
	blocked := func(n int) kernel.Fold { return kernel.Fold{Program: reduce.Blocked(sequence).Program(n)} }
	grouped := func(lo, hi int, all bool) []float32 {
		n := (hi - lo) * sequence
		return groupedShard(blocked, x[lo*sequence*d:][:n*d], y[lo*sequence*d:][:n*d], ids[lo*sequence:][:n], all)
	}
	mean := func(v float32, lo, hi int) []float32 { return []float32{v * float32(hi-lo)} } // back to a sum, exactly
	canonical = map[string]check.Shardable{
		"grouped product": func(lo, hi int) []float32 { return grouped(lo, hi, true) },
		"z loss": func(lo, hi int) []float32 {
			return mean(zLossByToken(logits[lo*sequence*e:hi*sequence*e], e, 0.3, inOrder(e), blocked((hi-lo)*sequence)), lo, hi)
		},
		"aux loss": func(lo, hi int) []float32 {
			return mean(auxLossBySequence(logits[lo*sequence*e:hi*sequence*e], counts[lo*e:hi*e], e, 3, 0.7, inOrder, inOrder(e), inOrder(3),
				foldOf("pairwise", hi-lo), nil), lo, hi)
		},
	}
	controls = map[string]check.Shardable{
		"grouped product": func(lo, hi int) []float32 { return grouped(lo, hi, false) },
		"z loss": func(lo, hi int) []float32 {
			return mean(zLoss(logits[lo*sequence*e:hi*sequence*e], e, 0.3, inOrder(e), blocked((hi-lo)*sequence)), lo, hi)
		},
		"aux loss": func(lo, hi int) []float32 {
			return mean(auxLoss(logits[lo*sequence*e:hi*sequence*e], counts[lo*e:hi*e], e, 3, 0.7, inOrder, inOrder((hi-lo)*e), inOrder(3), nil), lo, hi)
		},
	}
	return canonical, controls
}

// groupedShard is the weight gradients of five experts, of which a token has one.
func groupedShard(f func(n int) kernel.Fold, x, y []float32, ids []int32, all bool) []float32 {
	const e, d = 5, 3
	n := len(ids)
	token, inverse, offsets := make([]int32, n), make([]int32, n), make([]int32, e+1)
	kernel.Permute(token, inverse, offsets, ids, e, 1)
	xs, ys, dw := make([]float32, n*d), make([]float32, n*d), make([]float32, e*d*d)
	gatherRows(xs, x, token, 1, d)
	gatherRows(ys, y, token, 1, d)
	if all {
		groupedMatMulWeightAll(dw, xs, ys, offsets, token, d, d, f(n))
	} else {
		groupedMatMulWeight(dw, xs, ys, offsets, d, d, f)
	}
	return dw
}

// The forms that shard compute what the plain ones do.
func TestLossesByTokenAreTheSameFunctions(t *testing.T) {
	const rows, e, b = 12, 4, 3
	x := check.Normal(rand.New(rand.NewPCG(44, 1)), rows*e)
	require.InDelta(t, zLoss(x, e, 0.3, inOrder(e), inOrder(rows)), zLossByToken(x, e, 0.3, inOrder(e), inOrder(rows)), 1e-12)
	require.NotEqual(t, zLoss(x, e, 0.3, inOrder(e), inOrder(rows)), zLossByToken(x, e, 0.31, inOrder(e), inOrder(rows)))
	counts := []int32{3, 0, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}
	require.InDelta(t, auxLoss(x, counts, e, 2, 0.7, inOrder, inOrder(b*e), inOrder(2), nil),
		auxLossBySequence(x, counts, e, 2, 0.7, inOrder, inOrder(e), inOrder(2), inOrder(b), nil), 1e-12)
}

// dProbTree is the tree in which one row's f contributions to dprob are added: its
// tiles by their order, each tile's sub-tiles in the direction of its walk.
func dProbTree(f int, t tiling, n, tiles reduce.Order, reverse []bool) reduce.Tree {
	cols := t.Cols(f)
	parts := make([]reduce.Tree, cols)
	for c := range cols {
		lo, hi := c*t.N, min((c+1)*t.N, f)
		var subs []reduce.Tree
		for s := lo; s < hi; s += t.Sub {
			subs = append(subs, reduce.Graft(n.Tree(min(t.Sub, hi-s)), leaves(s, min(s+t.Sub, hi))))
		}
		walk := reduce.Seq
		if reverse[c] {
			walk = reduce.Reverse
		}
		parts[c] = reduce.Graft(walk.Tree(len(subs)), subs)
	}
	return reduce.Graft(tiles.Tree(cols), parts)
}

func leaves(lo, hi int) []reduce.Tree {
	var t []reduce.Tree
	for i := lo; i < hi; i++ {
		t = append(t, reduce.Tree{Leaf: i})
	}
	return t
}
