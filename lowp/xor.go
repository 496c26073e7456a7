package lowp

import "math"

// XOR is the XOR of the bits of float32 widened to float64, every NaN those of fp64's one: torch.hash_tensor of the formats from 16 to 32 bits.
func XOR(x []float32) (xor uint64) {
	var nan bool
	rest := x
	if n := len(x) &^ 15; vectorised && n > 0 {
		xor, nan = xor16(&x[0], n)
		rest = x[n:]
	}
	more, also := xorPlain(rest)
	if !nan && !also {
		return xor ^ more
	}
	xor = 0
	for _, v := range x {
		xor ^= Bits(float64(v))
	}
	return xor
}

func xorPlain(x []float32) (xor uint64, nan bool) {
	var m uint32
	for _, v := range x {
		xor ^= math.Float64bits(float64(v))
		m |= math.Float32bits(v)&magnitude + reach
	}
	return xor, m>>31 != 0
}

// XOR64 is XOR of fp64.
func XOR64(x []float64) (xor uint64) {
	for _, v := range x {
		xor ^= Bits(v)
	}
	return xor
}

// XORCodes is the XOR of bytes as int8, sign-extended: torch.hash_tensor of formats of a byte and less, which
// are taken as int8.
//
// Source: docs/facts.md, Fingerprints; docs/traces.md, Digests.
func XORCodes(b []byte) uint64 {
	var x int8
	for _, c := range b {
		x ^= int8(c)
	}
	return uint64(int64(x))
}
