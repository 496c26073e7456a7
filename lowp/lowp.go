// Package lowp is the number formats: what each can hold, how a float32 is rounded to it,
// and how far apart two of its values are.
//
// Values of every format up to 32 bits are kept as the float32 they equal. A format is a row
// of one table.
package lowp

import (
	"fmt"
	"math"
	"strings"
)

// Format names a number format.
type Format uint8

// The formats. FP64 is for references, INT32 for indices.
const (
	FP32 Format = iota
	BF16
	FP16
	FP64
	INT32
	formats
)

// spec is one row of the table of formats.
type spec struct {
	name      string
	bits      int
	mantissa  int // explicit bits; 0 for integers
	minExp    int // exponent of the smallest normal
	max       float64
	precision int // significant bits
}

var table = [formats]spec{
	FP32:  {"fp32", 32, 23, -126, math.MaxFloat32, 24},
	BF16:  {"bf16", 16, 7, -126, 0x1.fep127, 8},
	FP16:  {"fp16", 16, 10, -14, 65504, 11},
	FP64:  {"fp64", 64, 52, -1022, math.MaxFloat64, 53},
	INT32: {"int32", 32, 0, 0, math.MaxInt32, 32},
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
	return 0, fmt.Errorf("format %q: must be one of %s", s, strings.Join(names, ", "))
}

// Bits is the width of a code.
func (f Format) Bits() int { return table[f].bits }

// Float tells whether the format is a floating-point one.
func (f Format) Float() bool { return table[f].mantissa > 0 }

// Unit is the unit roundoff 2⁻ᵖ, p the significant bits.
func (f Format) Unit() float64 { return math.Ldexp(1, -table[f].precision) }

// Max is the largest finite value.
func (f Format) Max() float64 { return table[f].max }

// MinSubnormal is the smallest positive value.
func (f Format) MinSubnormal() float64 {
	return math.Ldexp(1, table[f].minExp-table[f].mantissa)
}

// Round is the value of f nearest to x, ties to even. Past the largest finite value by
// half a step it is ±∞; subnormals are kept; NaN becomes the quiet NaN 7fc00000. In fp32,
// and the formats that are not float32's, it is x itself, NaN and all.
//
// Source: IEEE 754-2019 §4.3.1, roundTiesToEven.
func (f Format) Round(x float32) float32 {
	s := &table[f]
	if s.mantissa == 0 || s.mantissa >= 23 {
		return x
	}
	b := math.Float32bits(x)
	abs := b &^ (1 << 31)
	if abs > 0x7f800000 {
		return math.Float32frombits(0x7fc00000)
	}
	// Below the smallest normal the step stays that of the smallest normal's binade;
	// adding and subtracting a power of two rounds there, ties to even.
	if abs < uint32(s.minExp+127)<<23 {
		magic := math.Float32frombits(uint32(s.minExp-s.mantissa+23+127) << 23)
		r := math.Float32frombits(abs) + magic
		return math.Float32frombits(math.Float32bits(r-magic) | b&(1<<31))
	}
	drop := uint(23 - s.mantissa)
	abs += 1<<(drop-1) - 1 + abs>>drop&1
	abs &^= 1<<drop - 1
	if math.Float32frombits(abs) > float32(s.max) {
		abs = 0x7f800000
	}
	return math.Float32frombits(abs | b&(1<<31))
}

// RoundSlice is Round of every element, in place.
func (f Format) RoundSlice(x []float32) {
	switch {
	case table[f].mantissa == 0 || table[f].mantissa >= 23:
	case f == BF16:
		roundBF16(x)
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

// Encode is the code, in the low bits, of the value of f nearest to x. NaN keeps its sign and
// the payload that fits, so that copies of a NaN are copies; one whose payload does not
// fit becomes quiet, not ∞.
func (f Format) Encode(x float32) uint32 {
	s := f.small()
	if s.mantissa == 23 {
		return math.Float32bits(x)
	}
	drop := uint(23 - s.mantissa)
	exponents := uint32(1)<<(s.bits-1-s.mantissa) - 1 // the exponent of ∞ and NaN
	if x != x {
		b := math.Float32bits(x)
		payload := b & 0x7fffff >> drop
		if payload == 0 {
			payload = 1 << (s.mantissa - 1)
		}
		return b>>31<<(s.bits-1) | exponents<<s.mantissa | payload
	}
	b := math.Float32bits(x)
	lowest := uint32(s.minExp+127) << 23
	if abs := b &^ (1 << 31); abs&(1<<drop-1) != 0 || abs < lowest || math.Float32frombits(abs) > float32(s.max) {
		b = math.Float32bits(f.Round(x))
	}
	sign, abs := b>>31<<(s.bits-1), b&^(1<<31)
	switch {
	case abs == 0x7f800000:
		return sign | exponents<<s.mantissa
	case abs < lowest: // subnormal: a multiple of the smallest
		return sign | uint32(float64(float64(math.Float32frombits(abs))/f.MinSubnormal()))
	}
	return sign | (abs-uint32(s.minExp+126)<<23)>>drop
}

// small is f's row, for the formats whose values are float32's too.
func (f Format) small() *spec {
	s := &table[f]
	if s.mantissa == 0 || s.mantissa > 23 {
		panic("lowp: the codes of fp64 and int32 are not made of float32")
	}
	return s
}

// Decode is the value of a code; a NaN keeps sign and payload.
func (f Format) Decode(c uint32) float32 {
	s := f.small()
	if s.mantissa == 23 {
		return math.Float32frombits(c)
	}
	drop := uint(23 - s.mantissa)
	sign := c >> (s.bits - 1) << 31
	abs := c & (1<<(s.bits-1) - 1)
	exponents := uint32(1)<<(s.bits-1-s.mantissa) - 1
	switch e := abs >> s.mantissa; e {
	case exponents:
		return math.Float32frombits(sign | 0x7f800000 | abs<<drop&0x7fffff)
	case 0:
		v := float32(float64(abs) * f.MinSubnormal())
		return math.Float32frombits(sign | math.Float32bits(v))
	}
	return math.Float32frombits(sign | (abs<<drop + uint32(s.minExp+126)<<23))
}
