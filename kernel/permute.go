package kernel

// Permute sorts the routed slots by expert, stable: expert-major, token-ascending.
//
// Shapes: index (T,K) → order, inverse (T·K), offsets (E+1). Row r of the permuted batch is slot
// order[r] = t·K + s; inverse[order[r]] = r; expert e has rows offsets[e] to offsets[e+1].
// Source: docs/facts.md, Model.
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
