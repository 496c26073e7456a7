package model

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

// What ranks with a share of the queries, the vocabulary or the table make, against one that has all.

// rowsOf cuts of each of b sequences the rows of a share.
func rowsOf(x []float32, b, share, shares int) []float32 {
	var y []float32
	per := len(x) / b
	for i := range b {
		y = append(y, x[i*per+share*per/shares:][:per/shares]...)
	}
	return y
}

// attendShare is attend for a share of the queries.
func attendShare(s attentionShape, f attentionFolds, share, shares int, q, k, v, do []float32) [4][]float32 {
	s.Queries, s.First = s.T/shares, share*s.T/shares
	q, do = rowsOf(q, s.B, share, shares), rowsOf(do, s.B, share, shares)
	o, probs := make([]float32, len(q)), make([]float32, s.B*s.H*s.Queries*s.T)
	for i := range probs {
		probs[i] = float32(math.NaN()) // whatever was there before
	}
	dq, dk, dv := make([]float32, len(q)), make([]float32, len(k)), make([]float32, len(v))
	attend(o, probs, q, k, v, s, 0.5, f)
	attendBackward(dq, dk, dv, do, q, k, v, probs, s, 0.5, f)
	return [4][]float32{o, dq, dk, dv}
}

// segmentFolds are the folds of a share of the queries when eight segments of the whole are added apart.
func segmentFolds(s attentionShape, order string, shares int) attentionFolds {
	return attentionFolds{P: foldOf(order, s.P), Keys: foldOf(order, s.T), DQ: foldOf(order, s.T),
		Queries: foldOf(order, s.H/s.KV*s.T/8), Segments: foldOf("pairwise", 8/shares)}
}

// Each share's o and dq are rows of the whole's, and its dk and dv a subtree.
func TestAttentionOfAShareOfTheQueries(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 62))
	s := attentionShape{B: 2, T: 16, H: 4, KV: 2, P: 5}
	nq, nk := s.B*s.T*s.H*s.P, s.B*s.T*s.KV*s.P
	for _, order := range []string{"seq", "reverse", "splitk(4)", "pairwise"} {
		q, k, v, do := check.Random(r, nq), check.Random(r, nk), check.Random(r, nk), check.Random(r, nq)
		whole := attended(s, segmentFolds(s, order, 1), q, k, v, do)
		for _, shares := range []int{1, 2, 4, 8} {
			var parts [4][][]float32
			for i := range shares {
				got := attendShare(s, segmentFolds(s, order, shares), i, shares, q, k, v, do)
				check.SameBits(t, rowsOf(whole[0], s.B, i, shares), got[0], "o of share %d of %d by %s", i, shares, order)
				check.SameBits(t, rowsOf(whole[1], s.B, i, shares), got[1], "dq of share %d of %d by %s", i, shares, order)
				for j := range got {
					parts[j] = append(parts[j], got[j])
				}
			}
			for j := 2; j < 4; j++ {
				check.SameBits(t, whole[j], sumOver(parts[j], "pairwise"), "dk, dv of %d shares by %s", shares, order)
			}
			if shares > 2 { // negative control: another order over the shares
				require.NotEqual(t, whole[3], sumOver(parts[3], "reverse"))
			}
		}
		// Negative controls: a share that stands elsewhere; heads outer.
		wrong := s
		wrong.Queries, wrong.First = 8, 4
		o, probs := make([]float32, nq/2), make([]float32, s.B*s.H*8*s.T)
		attend(o, probs, rowsOf(q, s.B, 1, 2), k, v, wrong, 0.5, segmentFolds(s, order, 2))
		require.NotEqual(t, rowsOf(whole[0], s.B, 1, 2), o)
		heads := segmentFolds(s, order, 1)
		heads.Queries, heads.Segments = foldOf(order, 2*s.T), kernel.Fold{}
		require.NotEqual(t, whole[3], attended(s, heads, q, k, v, do)[3])
	}
}

// sumOver adds vectors element by element.
func sumOver(x [][]float32, order string) []float32 {
	f, y := foldOf(order, len(x)), make([]float32, len(x[0]))
	for j := range y {
		y[j] = kernel.Run(f, func(i int) float32 { return x[i][j] })
	}
	return y
}

// dv adds by segments as said: in each the heads one after another, then the segments pairwise.
func TestAttentionSegmentsAddByTheirPlan(t *testing.T) {
	const heads, n, segments = 2, 8, 4
	for _, order := range check.Orders {
		for _, join := range check.Orders {
			folds := attentionFolds{P: inOrder(1), Keys: inOrder(n), DQ: inOrder(n), Queries: foldOf(order, heads*n/segments), Segments: foldOf(join, segments)}
			s := attentionShape{B: 1, T: n, H: heads, KV: 1, P: 1}
			check.Order(t, fmt.Sprintf("dv by %s, segments %s", order, join), heads*n, segmentTree(order, join, heads, n, segments), lowp.FP32, func(x []float32) float32 {
				do, probs := make([]float32, n*heads), make([]float32, heads*n*n)
				for h := range heads {
					for q := range n {
						do[q*heads+h], probs[(h*n+q)*n] = x[h*n+q], 1 // every query attends to key 0 alone
					}
				}
				dq, dk, dv := make([]float32, n*heads), make([]float32, n), make([]float32, n)
				attendBackward(dq, dk, dv, do, check.Ones(n*heads), check.Ones(n), make([]float32, n), probs, s, 1, folds)
				return dv[0]
			})
		}
	}
}

func segmentTree(order, join string, heads, n, segments int) reduce.Tree {
	size := n / segments
	var trees []reduce.Tree
	for i := range segments {
		var leaves []reduce.Tree
		for h := range heads {
			for q := range size {
				leaves = append(leaves, reduce.Chain([]int{h*n + i*size + q}))
			}
		}
		trees = append(trees, reduce.Graft(reduce.MustOrder(order).Tree(heads*size), leaves))
	}
	return reduce.Graft(reduce.MustOrder(join).Tree(segments), trees)
}

// The loss of parts of a vocabulary is the loss of all of it, where the order of the whole has the parts as subtrees.
func TestCrossEntropyOfPartsOfTheVocabulary(t *testing.T) {
	const rows, v = 9, 256
	r := rand.New(rand.NewPCG(63, 64))
	logits, targets := check.Random(r, rows*v), make([]int32, rows)
	for i := range targets {
		targets[i] = r.Int32N(v)
	}
	targets[4] = -1
	logits[5*v+int(targets[5])] = kernel.Negzero[float32]() // which 0 would not leave alone
	wholeOrder := foldOf("splitk(8,pairwise)", v)
	loss, lse, d := make([]float32, rows), make([]float32, rows), make([]float32, rows*v)
	crossEntropy(loss, lse, logits, targets, v, wholeOrder)
	crossEntropyBackward(d, logits, lse, targets, v, 0, 0.3)
	for _, shares := range []int{1, 2, 4, 8} {
		n := v / shares
		var sums, found [][]float32
		m := make([]float32, rows)
		rowMax(m, logits, v)
		highest := slices.Repeat([]float32{float32(math.Inf(-1))}, rows)
		for i := range shares {
			sum, target, top, part := make([]float32, rows), make([]float32, rows), make([]float32, rows), rowsOf(logits, rows, i, shares)
			rowMax(top, part, n)
			crossEntropyPart(sum, target, part, m, targets, n, i*n, foldOf(fmt.Sprintf("splitk(%d,pairwise)", 8/shares), n))
			sums, found = append(sums, sum), append(found, target)
			for j := range highest {
				highest[j] = max(highest[j], top[j])
			}
			got := make([]float32, rows*n)
			crossEntropyBackward(got, part, lse, targets, n, i*n, 0.3)
			check.SameBits(t, rowsOf(d, rows, i, shares), got, "gradient of part %d of %d", i, shares)
		}
		require.Equal(t, m, highest)
		for i, id := range targets {
			if id >= 0 {
				check.SameBits(t, logits[i*v+int(id):][:1], sumOver(found, "seq")[i:], "logit of target %d", i)
			}
		}
		got, gotLSE := make([]float32, rows), make([]float32, rows)
		crossEntropyJoin(got, gotLSE, m, sumOver(sums, "pairwise"), sumOver(found, "seq"), targets)
		check.SameBits(t, lse, gotLSE, "lse of %d parts", shares)
		check.SameBits(t, loss, got, "loss of %d parts", shares)
	}
	// Negative control: in sequence, the parts are not subtrees.
	other := make([]float32, rows)
	crossEntropy(other, lse, logits, targets, v, foldOf("reverse", v))
	require.NotEqual(t, loss, other)
}

// The fused loss takes the largest of each tile: by one tile it is the loss, by several it is as near as another order, and the order in which
// tiles are joined counts.
func TestCrossEntropyByTile(t *testing.T) {
	const rows, v = 200, 50
	r := rand.New(rand.NewPCG(73, 74))
	logits, targets := make([]float32, rows*v), make([]int32, rows)
	for i := range logits {
		logits[i] = float32(r.NormFloat64())
	}
	for i := range targets {
		targets[i] = r.Int32N(v)
	}
	targets[4] = -1
	losses := func(order string) (loss, lse []float32) {
		loss, lse = make([]float32, rows), make([]float32, rows)
		parts, by := reduce.MustOrder(order).Tiles(v)
		var tiles []kernel.Tile
		for _, p := range parts {
			tiles = append(tiles, kernel.Tile{Start: p.Start, Stride: p.Stride, Fold: foldOf(p.Order.String(), p.Count)})
		}
		crossEntropyByTile(loss, lse, logits, targets, v, tiles, foldOf(by.String(), len(parts)))
		return loss, lse
	}
	want, lse := make([]float32, rows), make([]float32, rows)
	crossEntropy(want, lse, logits, targets, v, foldOf("reverse", v))
	got, gotLSE := losses("reverse")
	check.SameBits(t, want, got, "one tile")
	check.SameBits(t, lse, gotLSE, "one tile")
	seen := map[string]bool{}
	for _, order := range []string{"splitk(4)", "splitk(4,given(3 1 0 2))", "lanes(4)", "blocked(7)", "segments(64)"} {
		got, gotLSE := losses(order)
		seen[fmt.Sprint(gotLSE)] = true
		for i := range got {
			require.InDelta(t, want[i], got[i], 1e-5, order)
		}
	}
	require.Greater(t, len(seen), 2)
}

// A row of the table is on one rank, and its gradient too, as though the others were not cut off.
func TestEmbeddingOfPartsOfTheTable(t *testing.T) {
	const rows, v, d = 40, 16, 3
	r := rand.New(rand.NewPCG(65, 66))
	w, dy, ids := check.Random(r, v*d), check.Random(r, rows*d), make([]int32, rows)
	for i := range ids {
		ids[i] = r.Int32N(v)
	}
	w[0] = kernel.Negzero[float32]()
	y, dw, all := make([]float32, rows*d), make([]float32, v*d), make([]float32, v*d)
	lookup(y, w, ids, d)
	embeddingBackward(dw, dy, ids, d, inOrder)
	embeddingBackwardAll(all, dy, ids, d, foldOf("blocked(8)", rows))
	require.NotEqual(t, dw, all, "negative control: the cuts differ")
	for _, shares := range []int{1, 2, 4} {
		var parts [][]float32
		for i := range shares {
			n, local, part := v/shares, make([]int32, rows), make([]float32, rows*d)
			localIDs(local, ids, int32(i*n))
			lookup(part, w[i*n*d:][:n*d], local, d)
			parts = append(parts, part)
			got := make([]float32, n*d)
			embeddingBackward(got, dy, local, d, inOrder)
			check.SameBits(t, dw[i*n*d:][:n*d], got, "gradient of part %d of %d", i, shares)
			embeddingBackwardAll(got, dy, local, d, foldOf("blocked(8)", rows))
			check.SameBits(t, all[i*n*d:][:n*d], got, "gradient of part %d of %d, all tokens", i, shares)
		}
		check.SameBits(t, y, sumOver(parts, "seq"), "rows of %d parts", shares)
		check.SameBits(t, y, sumOver(parts, "reverse"), "rows of %d parts", shares)
	}
	lookup(y[:d], w, []int32{v}, d)
	check.SameBits(t, []float32{kernel.Negzero[float32](), kernel.Negzero[float32](), kernel.Negzero[float32]()}, y[:d], "a row that is nowhere")
}
