package lowp

import "math"

// FMA32 is a·b + c rounded once, with the same bits on processors with such an instruction and
// without. The product of two float32 is exact in float64; its sum with c is rounded to odd
// there, which leaves the final rounding nothing to double. Zeros and infinities are those of
// IEEE 754's fusedMultiplyAdd.
//
// Source: Boldo & Melquiond 2008, "Emulation of FMA and correctly rounded sums: proved
// algorithms using rounding to odd".
func FMA32(a, b, c float32) float32 {
	p, z := float64(float64(a)*float64(b)), float64(c)
	s := p + z
	t := s - p // the error of the sum, exact (Knuth's two-sum)
	e := float64(p-float64(s-t)) + float64(z-t)
	if e != 0 && !math.IsNaN(e) && !math.IsInf(s, 0) && math.Float64bits(s)&1 == 0 {
		// s is even and inexact: step to the odd neighbour on the error's side.
		u := math.Float64bits(s)
		if (e > 0) == (s > 0) {
			u++
		} else {
			u--
		}
		s = math.Float64frombits(u)
	}
	return float32(s)
}
