package kernel

import "firstbit/libm"

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
	start := make([]int32, v+1) // counting sort: stable, so occurrences stay in token order
	for _, id := range ids {
		start[id+1]++
	}
	for i := range v {
		start[i+1] += start[i]
	}
	sorted, next := make([]int32, len(ids)), append([]int32(nil), start...)
	for i, id := range ids {
		sorted[next[id]] = int32(i)
		next[id]++
	}
	for i := range v {
		at := sorted[start[i]:start[i+1]]
		SumRowsAt(tokens(len(at)), dw[i*d:][:d], dy, d, at)
	}
}
