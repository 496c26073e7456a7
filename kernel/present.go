package kernel

import (
	"slices"

	"firstbit/libm"
	"firstbit/reduce"
)

// Sums over some of the tokens, cut where all tokens are cut: a token that has no part is an absent leaf, −0, and
// a subtree of absent leaves counts for nothing. Where the others stand then decides nothing about how these are added,
// so that the sum over a sequence is the same whatever stands beside it.

// SumPresent folds into dst the rows of src that are present, ascending: leaf i is row i, or absent.
//
// Shapes:  src (N,ld), present (any) → dst (at most ld).
// Reduces: the N rows, by f.
func SumPresent[T libm.Float](f Fold, dst, src []T, ld int, present []int32) {
	n := len(dst)
	if len(present) == 0 {
		fill(dst, Negzero[T]())
		return
	}
	runRows(f, dst, func(acc []T, step reduce.Step) {
		visitPresent(f, step, present, func(i int) {
			addRow(f, acc, src[int(present[i])*ld:][:n])
		})
	})
}

// visitPresent calls do with the places in present of the leaves of a chain, in the chain's order.
func visitPresent(f Fold, s reduce.Step, present []int32, do func(i int)) {
	if f.Perm == nil && s.Stride == 1 {
		i, _ := slices.BinarySearch(present, int32(s.Start))
		for ; i < len(present) && int(present[i]) < s.Start+s.Count; i++ {
			do(i)
		}
		return
	}
	for c := range s.Count {
		if i, ok := slices.BinarySearch(present, int32(f.leaf(s.Start+c*s.Stride))); ok {
			do(i)
		}
	}
}

// EmbeddingBackwardAll is EmbeddingBackward cut by token: every row is a leaf of every sum.
//
//	dw[v] = Σ over i of dy[i], absent where ids[i] ≠ v
//
// Shapes:  dy (rows,D), ids (rows) → dw (V,D). An id outside the V rows lies elsewhere.
// Reduces: the rows, by f.
func EmbeddingBackwardAll[T libm.Float](dw, dy []T, ids []int32, d int, f Fold) {
	need(f, len(ids))
	occurrences(ids, len(dw)/d, func(v int, at []int32) {
		SumPresent(f, dw[v*d:][:d], dy, d, at)
	})
}

// GroupedMatMulWeightAll is GroupedMatMulWeight cut by token: every token is a leaf of every expert's sum, absent where
// it has no row.
//
//	dw_e[i,j] = fold over tokens of x[r,i]·dy[r,j], r the token's row of e
//
// Shapes:  x (R,m), dy (R,n), token (R), ascending for each expert → dw (E,m,n).
// Reduces: the tokens, by f; an expert without rows gets −0.
func GroupedMatMulWeightAll[T libm.Float](dw, x, dy []T, offsets, token []int32, m, n int, f Fold) {
	var rows []int
	var px, pdy []T
	for e := range len(offsets) - 1 {
		lo, hi := int(offsets[e]), int(offsets[e+1])
		if lo == hi {
			fill(dw[e*m*n:][:m*n], Negzero[T]())
			continue
		}
		runRows(f, dw[e*m*n:][:m*n], func(acc []T, step reduce.Step) {
			rows = rows[:0]
			visitPresent(f, step, token[lo:hi], func(i int) { rows = append(rows, lo+i) })
			if len(rows) == 0 {
				return
			}
			first, k := rows[0], len(rows)
			a, b := x[first*m:], dy[first*n:]
			if f.Perm != nil || step.Stride != 1 { // rows that do not follow one another
				px, pdy = packRows(px, x, rows, m), packRows(pdy, dy, rows, n)
				a, b = px, pdy
			}
			chain := Fold{Program: reduce.Seq.Program(k), Acc: f.Acc, FMA: f.FMA}
			MatMul(acc, n, RowMajor(a[:k*m], m).T(), RowMajor(b[:k*n], n), m, n, k, chain)
		})
	}
}

// packRows lays rows of x down one after another, in dst's storage.
func packRows[T libm.Float](dst, x []T, rows []int, d int) []T {
	dst = dst[:0]
	for _, r := range rows {
		dst = append(dst, x[r*d:][:d]...)
	}
	return dst
}
