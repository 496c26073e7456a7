package kernel

import (
	"sync"

	"firstbit/libm"
)

// Embedding looks rows up: y[i] = w[ids[i]].
//
// Shapes: w (V,D), ids (rows) → y (rows,D).
func Embedding[T libm.Float](y, w []T, ids []int32, d int) {
	for i, id := range ids {
		copy(y[i*d:][:d], w[int(id)*d:][:d])
	}
}

// EmbeddingBackward adds the gradients of a token's occurrences.
//
//	dw[v] = Σ over i with ids[i] = v of dy[i]
//
// Shapes:  dy (rows,D), ids (rows) → dw (V,D).
// Reduces: the occurrences of v in ascending i, by a fold for their number; a token that does not
// occur has the empty sum, −0.
func EmbeddingBackward[T libm.Float](dw, dy []T, ids []int32, d int, tokens func(n int) Fold) {
	v := len(dw) / d
	buf := borrowIndex(v + 1 + 2*len(ids))
	defer indexPool.Put(buf)
	start, sorted, inverse := (*buf)[:v+1], (*buf)[v+1:][:len(ids)], (*buf)[v+1+len(ids):]
	Permute(sorted, inverse, start, ids, v, 1) // stable, so occurrences stay in token order
	for i := range v {
		at := sorted[start[i]:start[i+1]]
		f := tokens(len(at))
		need(f, len(at))
		SumRowsAt(f, dw[i*d:][:d], dy, d, at)
	}
}

var indexPool sync.Pool

// borrowIndex takes a slice of n indices, not cleared, from a pool.
func borrowIndex(n int) *[]int32 {
	s, _ := indexPool.Get().(*[]int32)
	if s == nil {
		s = new([]int32)
	}
	if cap(*s) < n {
		*s = make([]int32, n)
	}
	*s = (*s)[:n]
	return s
}
