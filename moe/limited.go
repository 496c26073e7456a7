package moe

import (
	"firstbit/kernel"
	"firstbit/libm"
)

// groupScores is, for each of g groups of consecutive experts, the sum of its n largest
// scores + bias. A nil bias is none. NaN is below every number.
//
// Shapes:  scores (rows,E), bias (E) → sums (rows,g).
// Reduces: group, by f: n leaves, a group's largest first; of equal ones the lower index.
// Source:  docs/facts.md, Model; Megatron Core's group-limited top-k, n = k/kept; Hugging Face, n = 2.
func groupScores[T libm.Float](sums, scores, bias []T, e, g, n int, f kernel.Fold) {
	kernel.Need(f, n)
	value, top := kernel.Borrow[T](e), kernel.Borrow[T](n)
	defer kernel.GiveBack(value)
	defer kernel.GiveBack(top)
	v, chosen, size := *value, make([]int32, n), e/g
	for i := range sums {
		group := i % g
		if group == 0 {
			addBias(v, scores[i/g*e:][:e], bias)
		}
		best := chosen[:0]
		for j := group * size; j < (group+1)*size; j++ {
			best = insert(best, n, v, j, tieLow)
		}
		for r, j := range best {
			(*top)[r] = v[j]
		}
		sums[i] = kernel.Sum(f, *top, 1)
	}
}

// topKOfGroups is topK over the experts of the groups a row keeps, of g groups of consecutive
// experts. The others are absent: none of their values can be chosen or tie.
//
// Shapes: scores (rows,E), bias (E), kept (rows,groups kept) → index (rows,k).
func topKOfGroups[T libm.Float](index []int32, scores, bias []T, kept []int32, e, g, k int, tie tie) {
	rows := len(scores) / e
	value := kernel.Borrow[T](e)
	defer kernel.GiveBack(value)
	v, in, size, nkept := *value, make([]bool, g), e/g, len(kept)/max(rows, 1)
	for i := range rows {
		addBias(v, scores[i*e:][:e], bias)
		clear(in)
		for _, group := range kept[i*nkept:][:nkept] {
			in[group] = true
		}
		chosen := index[i*k:][:0]
		for j := range v { // ascending, whatever the order of the groups, so that NaNs fall as they do in topK
			if in[j/size] {
				chosen = insert(chosen, k, v, j, tie)
			}
		}
	}
}

// softmaxTopK is w = softmax over the k chosen logits of a row, in slot order, and p = scaling·w.
//
// Shapes:  logits (rows,k) → p, w (rows,k).
// Reduces: slots, by f.
// Source:  Megatron Core's softmax after top-k.
func softmaxTopK[T libm.Float](p, w, logits []T, k int, scaling T, f kernel.Fold) {
	softmax(w, logits, k, f)
	scale(p, w, scaling)
}

// softmaxTopKBackward is the gradient with respect to the chosen logits.
//
//	forward:  w = softmax(l) ;  p = scaling·w
//	dl = w·(scaling·dp − Σ_slots scaling·dp·w)
//
// Reduces: slots, by f.
func softmaxTopKBackward[T libm.Float](dlogits, dp, w []T, k int, scaling T, f kernel.Fold) {
	dw := kernel.Borrow[T](len(dp))
	defer kernel.GiveBack(dw)
	scale(*dw, dp, scaling)
	softmaxBackward(dlogits, *dw, w, k, f)
}
