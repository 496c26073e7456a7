package model

import (
	"sync"

	"firstbit/kernel"
	"firstbit/libm"
)

// lookup looks rows up: y[i] = w[ids[i]], absent (−0) for an id outside the rows that are here, which lies elsewhere.
//
// Shapes: w (V,D), ids (rows) → y (rows,D).
func lookup[T libm.Float](y, w []T, ids []int32, d int) {
	for i, id := range ids {
		if at := int(id) * d; at >= 0 && at < len(w) {
			copy(y[i*d:][:d], w[at:][:d])
			continue
		}
		kernel.Fill(y[i*d:][:d], kernel.Negzero[T]())
	}
}

// localIDs counts ids from the first of a table's rows that are here.
//
// Shapes: ids (rows) → local (rows).
func localIDs(local, ids []int32, first int32) {
	for i, id := range ids {
		local[i] = id - first
	}
}

// embeddingBackward adds the gradients of a token's occurrences.
//
//	dw[v] = Σ over i with ids[i] = v of dy[i]
//
// Shapes:  dy (rows,D), ids (rows) → dw (V,D). An id outside the V rows lies elsewhere.
// Reduces: the occurrences of v in ascending i, by a fold for their number; a token that does not
// occur has the empty sum, −0.
func embeddingBackward[T libm.Float](dw, dy []T, ids []int32, d int, tokens func(n int) kernel.Fold) {
	occurrences(ids, len(dw)/d, func(v int, at []int32) {
		f := tokens(len(at))
		kernel.Need(f, len(at))
		kernel.SumRowsAt(f, dw[v*d:][:d], dy, d, at)
	})
}

// embeddingScatter is embeddingBackward as threads do it that share the tokens.
func embeddingScatter[T libm.Float](dw, dy []T, ids []int32, d int, way kernel.Race) {
	v := len(dw) / d
	kernel.RaceScatter(way, dw, d, len(ids), func(i int) int {
		if id := int(ids[i]); id < v {
			return id
		}
		return -1 // another rank's
	}, func(i int) []T { return dy[i*d:][:d] })
}

// occurrences shows of each id from 0 to v−1 where it stands in ids, ascending.
func occurrences(ids []int32, v int, do func(id int, at []int32)) {
	n := len(ids)
	buf := borrowIndex(v + 2 + 3*n)
	defer indexPool.Put(buf)
	start, sorted, inverse, slots := (*buf)[:v+2], (*buf)[v+2:][:n], (*buf)[v+2+n:][:n], (*buf)[v+2+2*n:]
	for i, id := range ids {
		slots[i] = id
		if id < 0 || int(id) >= v {
			slots[i] = int32(v) // after all that are asked for
		}
	}
	kernel.Permute(sorted, inverse, start, slots, v+1, 1) // stable, so occurrences stay in token order
	for id := range v {
		do(id, sorted[start[id]:start[id+1]])
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

// embeddingBackwardAll is embeddingBackward cut by token: every row is a leaf of every sum.
//
//	dw[v] = Σ over i of dy[i], absent where ids[i] ≠ v
//
// Shapes:  dy (rows,D), ids (rows) → dw (V,D). An id outside the V rows lies elsewhere.
// Reduces: the rows, by f.
func embeddingBackwardAll[T libm.Float](dw, dy []T, ids []int32, d int, f kernel.Fold) {
	kernel.Need(f, len(ids))
	occurrences(ids, len(dw)/d, func(v int, at []int32) {
		kernel.SumPresent(f, dw[v*d:][:d], dy, d, at)
	})
}
