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
		Fill(dst, Negzero[T]())
		return
	}
	RunRows(f, dst, func(acc []T, step reduce.Step) {
		VisitPresent(f, step, present, func(i int) {
			addRow(f, acc, src[int(present[i])*ld:][:n])
		})
	})
}

// VisitPresent calls do with the places in present of the leaves of a chain, in the chain's order.
func VisitPresent(f Fold, s reduce.Step, present []int32, do func(i int)) {
	if f.Perm == nil && s.Stride == 1 {
		i, _ := slices.BinarySearch(present, int32(s.Start))
		for ; i < len(present) && int(present[i]) < s.Start+s.Count; i++ {
			do(i)
		}
		return
	}
	for c := range s.Count {
		if i, ok := slices.BinarySearch(present, int32(f.Leaf(s.Start+c*s.Stride))); ok {
			do(i)
		}
	}
}
