package lowp

// Ulps is the number of values of f between a and b, one of them counted: the distance
// of their codes in numerical order. −0 and +0 are 1 apart, the largest value and ∞ too. With
// a NaN it is the distance of the codes all the same, and means nothing but "not equal"; NaNs are equal.
//
// Units:   ulps of f at the values between.
func (f Format) Ulps(a, b float32) uint64 {
	return f.CodeUlps(uint64(f.Encode(a)), uint64(f.Encode(b)))
}

// CodeUlps is Ulps of codes, of any floating-point format.
func (f Format) CodeUlps(a, b uint64) uint64 {
	bits := table[f].bits
	if f == E8M0 { // the only codes without a sign
		bits++
	}
	return distance(ordered(a, bits), ordered(b, bits))
}

// ordered maps a code so that numerical order is integer order.
func ordered(c uint64, bits int) int64 {
	if sign := uint64(1) << (bits - 1); c&sign != 0 {
		return -int64(c&^sign) - 1
	}
	return int64(c)
}

func distance(a, b int64) uint64 {
	if a < b {
		a, b = b, a
	}
	return uint64(a) - uint64(b)
}
