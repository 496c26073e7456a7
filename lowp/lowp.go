// Package lowp is the number formats: what each can hold, how a float32 is rounded to it,
// and how far apart two of its values are.
//
// Values of every format up to 32 bits are kept as the float32 they equal. A format is a row
// of one table.
package lowp

import (
	"fmt"
	"math"

	"firstbit/spell"
)

// Format names a number format.
type Format uint8

// The formats. FP64 is for references, INT32 for indices. Those of eight bits and fewer are for
// values under a scale: E4M3 and E2M1 have no ∞, E2M1 no NaN, and E8M0 is a power of two without
// sign or zero. A conversion to one of them saturates.
//
// Source: OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats 1.0.
const (
	FP32 Format = iota
	BF16
	FP16
	FP64
	INT32
	E4M3
	E5M2
	E2M1
	E8M0
	formats
)

// kind is what the codes of the largest exponent mean.
type kind uint8

const (
	ieee    kind = iota // ∞ and NaN
	allOnes             // NaN where every bit is one, else numbers
	finite              // numbers
	power               // no fraction at all: 2ᵉ, and NaN where every bit is one
	integer
)

// spec is one row of the table of formats.
type spec struct {
	name      string
	bits      int
	mantissa  int // explicit bits; 0 for integers
	minExp    int // exponent of the smallest normal
	max       float64
	precision int // significant bits
	kind      kind
	saturates bool   // past the largest value lies the largest value
	nan       uint64 // the code that stands for every NaN; 0: there is no NaN
}

var table = [formats]spec{
	FP32:  {"fp32", 32, 23, -126, math.MaxFloat32, 24, ieee, false, 0x7fc00000},
	BF16:  {"bf16", 16, 7, -126, 0x1.fep127, 8, ieee, false, 0x7fc0},
	FP16:  {"fp16", 16, 10, -14, 65504, 11, ieee, false, 0x7e00},
	FP64:  {"fp64", 64, 52, -1022, math.MaxFloat64, 53, ieee, false, 0x7ff8000000000000},
	INT32: {"int32", 32, 0, 0, math.MaxInt32, 32, integer, false, 0},
	E4M3:  {"e4m3", 8, 3, -6, 448, 4, allOnes, true, 0x7f},
	E5M2:  {"e5m2", 8, 2, -14, 57344, 3, ieee, true, 0x7e},
	E2M1:  {"e2m1", 4, 1, 0, 6, 2, finite, true, 0},
	E8M0:  {"e8m0", 8, 0, -127, 0x1p127, 1, power, true, 0xff},
}

// String is the name in traces and flags.
func (f Format) String() string { return table[f].name }

// Parse reads a format's name.
func Parse(s string) (Format, error) {
	names := make([]string, formats)
	for f := range formats {
		if table[f].name == s {
			return f, nil
		}
		names[f] = table[f].name
	}
	return 0, fmt.Errorf("format %q: %s", s, spell.OneOf(s, names))
}

// Bits is the width of a code.
func (f Format) Bits() int { return table[f].bits }

// Float tells whether the format is a floating-point one.
func (f Format) Float() bool { return table[f].kind != integer }

// Unit is the unit roundoff 2⁻ᵖ, p the significant bits.
func (f Format) Unit() float64 { return math.Ldexp(1, -table[f].precision) }

// NaN is the code that stands for every NaN of f wherever codes are hashed, compared, printed or saved: the
// quiet one without a sign or a payload. A NaN that arithmetic makes is ffc00000 on one processor and 7fc00000 on another. 0: f has no NaN.
//
// Source: IEEE 754-2019 §6.2.1; OCP 8-bit Floating Point Specification 1.0, table 1.
func (f Format) NaN() uint64 { return table[f].nan }

// Max is the largest finite value.
func (f Format) Max() float64 { return table[f].max }

// MinSubnormal is the smallest positive value.
func (f Format) MinSubnormal() float64 {
	return math.Ldexp(1, table[f].minExp-table[f].mantissa)
}

// Round is the value of f nearest to x, ties to even. Past the largest finite value by
// half a step it is ±∞, or the largest value where f saturates; subnormals are kept; NaN becomes
// the quiet NaN 7fc00000. In fp32, and the formats that are not float32's, it is x itself, NaN and
// all. E2M1, which has no NaN, gives 6 for it; E8M0 is Power.
//
// Source: IEEE 754-2019 §4.3.1, roundTiesToEven; PTX ISA, cvt.rn.satfinite.
func (f Format) Round(x float32) float32 {
	s := &table[f]
	if s.kind == integer || s.mantissa >= 23 {
		return x
	}
	if s.kind == power {
		return f.Decode(uint32(Power(x)))
	}
	b := math.Float32bits(x)
	abs := b &^ (1 << 31)
	if abs > 0x7f800000 {
		if s.kind == finite {
			return float32(s.max)
		}
		return math.Float32frombits(0x7fc00000)
	}
	abs = s.nearest(abs)
	if math.Float32frombits(abs) > float32(s.max) {
		abs = 0x7f800000
		if s.saturates {
			abs = math.Float32bits(float32(s.max))
		}
	}
	return math.Float32frombits(abs | b&(1<<31))
}

// nearest is the magnitude to which abs, not a NaN, is rounded if exponents have no end above.
func (s *spec) nearest(abs uint32) uint32 {
	// Below the smallest normal the step stays that of the smallest normal's binade;
	// adding and subtracting a power of two rounds there, ties to even.
	if abs < uint32(s.minExp+127)<<23 {
		magic := math.Float32frombits(uint32(s.minExp-s.mantissa+23+127) << 23)
		r := math.Float32frombits(abs) + magic
		return math.Float32bits(r - magic)
	}
	drop := uint(23 - s.mantissa)
	abs += 1<<(drop-1) - 1 + abs>>drop&1
	return abs &^ (1<<drop - 1)
}

// RoundSlice is Round of every element, in place.
func (f Format) RoundSlice(x []float32) {
	switch {
	case table[f].kind == integer || table[f].mantissa >= 23:
	case f == BF16:
		roundBF16(x)
	case f == FP16:
		roundFP16(x)
	default:
		for i, v := range x {
			x[i] = f.Round(v)
		}
	}
}

// roundBF16 is Round for the format whose exponents are float32's own: the carry of the
// addition runs into the exponent and, at the top, into ∞, as it should.
func roundBF16(x []float32) {
	for i, v := range x {
		b := math.Float32bits(v)
		if b&^(1<<31) > 0x7f800000 {
			x[i] = math.Float32frombits(0x7fc00000)
			continue
		}
		b += 0x7fff + b>>16&1
		x[i] = math.Float32frombits(b &^ 0xffff)
	}
}

// roundFP16 is Round for the format of most tensors beside BF16, with what the table says of it in place.
func roundFP16(x []float32) {
	const (
		magic    = 0x1p-1     // whose step is 2⁻²⁴, that of fp16's subnormal numbers
		minimum  = 0x38800000 // 2⁻¹⁴, the smallest normal number
		overflow = 0x477ff000 // 65520, half a step above the largest
		infinity = 0x7f800000
	)
	for i, v := range x {
		b := math.Float32bits(v)
		sign, abs := b&(1<<31), b&^(1<<31)
		switch {
		case abs < minimum:
			abs = math.Float32bits(float32(math.Float32frombits(abs)+magic) - magic)
		case abs < overflow:
			abs += 0xfff + abs>>13&1
			abs &^= 0x1fff
		case abs <= infinity:
			abs = infinity
		default:
			sign, abs = 0, 0x7fc00000
		}
		x[i] = math.Float32frombits(abs | sign)
	}
}
