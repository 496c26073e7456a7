package kernel

import "firstbit/libm"

// Permute sorts the routed slots by expert, stable: expert-major, token-ascending.
//
// Shapes: index (T,K) → order, inverse (T·K), offsets (E+1). Row r of the permuted batch is slot
// order[r] = t·K + s; inverse[order[r]] = r; expert e has rows offsets[e] to offsets[e+1].
// Source: FACTS §5.
func Permute(order, inverse, offsets, index []int32, e, k int) {
	clear(offsets)
	for _, x := range index {
		offsets[x+1]++
	}
	for i := range e {
		offsets[i+1] += offsets[i]
	}
	for slot, x := range index { // offsets[x] moves to where x's next row goes
		r := offsets[x]
		offsets[x]++
		order[r], inverse[slot] = int32(slot), r
	}
	copy(offsets[1:], offsets[:e]) // the end of one expert is the start of the next
	offsets[0] = 0
}

// GatherRows is y[r] = x[order[r]/k]: a token's row for each slot it chose.
func GatherRows[T libm.Float](y, x []T, order []int32, k, d int) {
	for r, slot := range order {
		copy(y[r*d:][:d], x[int(slot)/k*d:][:d])
	}
}

// CombineSlots is y[t] = fold over slots s of x[inverse[t·k+s]].
//
// Shapes:  x (T·k,d) → y (T,d).
// Reduces: slots, by f.
func CombineSlots[T libm.Float](y, x []T, inverse []int32, k, d int, f Fold) {
	need(f, k)
	for t := range len(inverse) / k {
		SumRowsAt(f, y[t*d:][:d], x, d, inverse[t*k:][:k])
	}
}
