package moe

import (
	"math/bits"
	"slices"

	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/nn"
)

// sigmoid is y = 1/(1+e⁻ˣ).
func sigmoid[T libm.Float](y, x []T) {
	libm.SigmoidSlice(y, x)
}

// sigmoidBackward is dx = dy·y·(1−y).
func sigmoidBackward[T libm.Float](dx, dy, y []T) {
	for i, v := range y {
		dx[i] = T(dy[i]*v) * (1 - v)
	}
}

// softmax is y = exp(x−m)/Σ exp(x−m) over rows of e, m the row's largest.
//
// Reduces: e, by f.
func softmax[T libm.Float](y, x []T, e int, f kernel.Fold) {
	kernel.Need(f, e)
	for i := 0; i < len(x); i += e {
		row, out := x[i:i+e], y[i:i+e]
		nn.ExpLess(out, row, nn.Largest(row))
		sum := kernel.Sum(f, out, 1)
		for j := range out {
			out[j] /= sum
		}
	}
}

// softmaxBackward is dx = y·(dy − Σ_e dy·y).
//
// Reduces: e, by f.
func softmaxBackward[T libm.Float](dx, dy, y []T, e int, f kernel.Fold) {
	kernel.Need(f, e)
	for i := 0; i < len(y); i += e {
		s := kernel.Dot(f, dy[i:], 1, y[i:], 1)
		for j := i; j < i+e; j++ {
			dx[j] = y[j] * (dy[j] - s)
		}
	}
}

// tie says which of two equal experts a top-k kernel takes.
type tie uint8

// The tie rules of the two public kernels (docs/facts.md, Kernels).
const (
	tieLow   tie = iota // the radix kernel: the lower index
	tieNaive            // the naive kernel: the lower (bit-reverse5(index mod 32), index div 32)
)

func (t tie) less(a, b int) bool {
	if t == tieLow {
		return a < b
	}
	ra, rb := bits.Reverse8(uint8(a%32))>>3, bits.Reverse8(uint8(b%32))>>3
	return ra < rb || ra == rb && a/32 < b/32
}

// topK chooses, for each row, the k experts of the largest score + bias, in descending order;
// equal values by the tie rule. A nil bias is none. NaN is below every number.
//
// Shapes: scores (rows,E), bias (E) → index (rows,k).
func topK[T libm.Float](index []int32, scores, bias []T, e, k int, tie tie) {
	value := kernel.Borrow[T](e)
	defer kernel.GiveBack(value)
	v := *value
	for i := range len(scores) / e {
		addBias(v, scores[i*e:], bias)
		chosen := index[i*k:][:0]
		for j := range v {
			chosen = insert(chosen, k, v, j, tie)
		}
	}
}

// sortSlots puts each row's choice in ascending order.
//
// Shapes: index (rows,k).
func sortSlots(index []int32, k int) {
	for i := 0; i < len(index); i += k {
		slices.Sort(index[i:][:k])
	}
}

// addBias is v = scores + bias; a nil bias is none.
func addBias[T libm.Float](v, scores, bias []T) {
	copy(v, scores)
	for j, b := range bias {
		v[j] += b
	}
}

// insert puts j among the at most k best of v so far, the best first.
func insert[T libm.Float](chosen []int32, k int, v []T, j int, tie tie) []int32 {
	at := len(chosen)
	for at > 0 && better(v, j, int(chosen[at-1]), tie) {
		at--
	}
	if at == k {
		return chosen
	}
	if len(chosen) < k {
		chosen = chosen[:len(chosen)+1]
	}
	copy(chosen[at+1:], chosen[at:])
	chosen[at] = int32(j)
	return chosen
}

func better[T libm.Float](v []T, a, b int, tie tie) bool {
	switch {
	case v[a] > v[b]:
		return true
	case v[a] < v[b] || v[a] != v[a]:
		return false
	case v[b] != v[b]:
		return true
	}
	return tie.less(a, b)
}

// gather is p[t,s] = scores[t, index[t,s]].
func gather[T libm.Float](p, scores []T, index []int32, e, k int) {
	for i, x := range index {
		p[i] = scores[i/k*e+int(x)]
	}
}

// gatherBackward is dscores[t, index[t,s]] = dp[t,s], zero elsewhere; a row's experts are distinct.
func gatherBackward[T libm.Float](dscores, dp []T, index []int32, e, k int) {
	clear(dscores)
	for i, x := range index {
		dscores[i/k*e+int(x)] = dp[i]
	}
}

const tinyShare = 1e-20 // keeps a row of zero scores from dividing by zero (docs/facts.md, Model)

// normalize is p = scaling·s/(Σ_slots s + 1e-20).
//
// Shapes:  s (rows,k) → p (rows,k), sum (rows), the denominators.
// Reduces: slots, by f.
func normalize[T libm.Float](p, sum, s []T, k int, scaling T, f kernel.Fold) {
	kernel.Need(f, k)
	for i := range sum {
		sum[i] = kernel.Sum(f, s[i*k:], 1) + tinyShare
		for j := i * k; j < (i+1)*k; j++ {
			p[j] = T(s[j]/sum[i]) * scaling
		}
	}
}

// normalizeBackward is the gradient with respect to s.
//
//	forward:  p = scaling·s/S
//	ds = scaling·(dp − Σ_slots dp·s/S)/S
//
// Reduces: slots, by f.
func normalizeBackward[T libm.Float](ds, dp, s, sum []T, k int, scaling T, f kernel.Fold) {
	kernel.Need(f, k)
	for i, S := range sum {
		c := kernel.Dot(f, dp[i*k:], 1, s[i*k:], 1) / S
		for j := i * k; j < (i+1)*k; j++ {
			ds[j] = T(scaling*(dp[j]-c)) / S
		}
	}
}

// probShare is P = s/(Σ_experts s + 1e-20), a token's scores as shares.
//
// Reduces: experts, by f.
func probShare[T libm.Float](share, s []T, e int, f kernel.Fold) {
	kernel.Need(f, e)
	for i := 0; i < len(s); i += e {
		sum := kernel.Sum(f, s[i:], 1) + tinyShare
		for j := i; j < i+e; j++ {
			share[j] = s[j] / sum
		}
	}
}

// probShareBackward is ds = (dP − Σ_experts dP·s/S)/S, S = Σs + 1e-20.
//
// Reduces: experts, by f.
func probShareBackward[T libm.Float](ds, dshare, s []T, e int, f kernel.Fold) {
	kernel.Need(f, e)
	for i := 0; i < len(s); i += e {
		sum := kernel.Sum(f, s[i:], 1) + tinyShare
		c := kernel.Dot(f, dshare[i:], 1, s[i:], 1) / sum
		for j := i; j < i+e; j++ {
			ds[j] = (dshare[j] - c) / sum
		}
	}
}

// counts is n[e] = how often e occurs in index.
func counts(n, index []int32) {
	clear(n)
	for _, e := range index {
		n[e]++
	}
}
