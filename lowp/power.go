package lowp

import "math"

// Power is the code of E8M0 nearest to x, a tie to the larger. Zeros become the smallest value, ∞
// the largest; negative numbers and NaN are NaN.
func Power(x float32) uint8 {
	b := math.Float32bits(x)
	switch {
	case b == 1<<31:
		return 0
	case b > 0x7f800000: // NaN, or negative
		return 0xff
	case b < 0x00800000: // 2⁻¹²⁷ has the bits 00400000; the tie with 2⁻¹²⁶ is at 00600000
		return uint8(b / 0x00600000)
	}
	return uint8(min((b+0x00400000)>>23, 0xfe))
}

// PowerUp is the smallest code of E8M0 whose value is not below x: NaN is NaN, ∞ the largest code,
// 0 the smallest. The sign is not looked at.
//
// Source: docs/facts.md, Low precision; TransformerEngine, float_to_e8m0.
func PowerUp(x float32) uint8 {
	b := math.Float32bits(x) &^ (1 << 31)
	switch {
	case b > 0x7f800000:
		return 0xff
	case b <= 0x00400000:
		return 0
	}
	return uint8(min((b+0x007fffff)>>23, 0xfe))
}
