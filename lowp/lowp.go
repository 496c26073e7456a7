// Package lowp is the number formats: what each can hold, how a float32 is rounded to it,
// and how far apart two of its values are.
package lowp

import (
	"encoding/binary"
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
// half a step it is ±∞; subnormals are kept; NaN becomes the quiet NaN 7fc00000.
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

// RoundSlice rounds every element in place.
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

// Encode is the code of x, which must be a value of f, in the low bits.
func (f Format) Encode(x float32) uint32 {
	s := &table[f]
	b := math.Float32bits(x)
	if s.mantissa >= 23 || s.mantissa == 0 {
		return b
	}
	drop := uint(23 - s.mantissa)
	sign, abs := b>>31<<(s.bits-1), b&^(1<<31)
	exponents := uint32(1)<<(s.bits-1-s.mantissa) - 1 // the code of ∞ and NaN
	switch {
	case abs >= 0x7f800000:
		return sign | exponents<<s.mantissa | abs&0x7fffff>>drop
	case abs < uint32(s.minExp+127)<<23: // subnormal: a multiple of the smallest
		return sign | uint32(math.Float32frombits(abs)*float32(1/f.MinSubnormal()*0x1p-100)*0x1p100)
	}
	return sign | (abs-uint32(s.minExp+126)<<23)>>drop
}

// Decode is the value of a code.
func (f Format) Decode(c uint32) float32 {
	s := &table[f]
	if s.mantissa >= 23 || s.mantissa == 0 {
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

// AppendBytes appends the elements' codes, row-major, little-endian.
func (f Format) AppendBytes(dst []byte, x []float32) []byte {
	if table[f].bits == 16 {
		for _, v := range x {
			dst = binary.LittleEndian.AppendUint16(dst, uint16(f.Encode(v)))
		}
		return dst
	}
	for _, v := range x {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
	}
	return dst
}

// FromBytes reads what AppendBytes wrote.
func (f Format) FromBytes(b []byte) []float32 {
	size := table[f].bits / 8
	x := make([]float32, len(b)/size)
	for i := range x {
		if size == 2 {
			x[i] = f.Decode(uint32(binary.LittleEndian.Uint16(b[2*i:])))
		} else {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	}
	return x
}

// Ulps is the number of values of f between a and b, one of them counted: the distance
// of their codes in numerical order. −0 and +0 are 1 apart. With a NaN it is
// the distance of the codes all the same, and means nothing but "not equal".
func (f Format) Ulps(a, b float32) uint64 {
	return distance(ordered(uint64(f.Encode(a)), table[f].bits), ordered(uint64(f.Encode(b)), table[f].bits))
}

// Ulps64 is Ulps of fp64.
func Ulps64(a, b float64) uint64 {
	return distance(ordered(math.Float64bits(a), 64), ordered(math.Float64bits(b), 64))
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

// FMA32 is a·b + c rounded once. The product of two float32 is exact in float64; their sum
// with c is rounded to odd there, which leaves the final rounding nothing to double.
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
