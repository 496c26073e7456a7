package lowp

import "math"

// The conversions below are those of tensors under a scale, to E4M3, E5M2 and E2M1. One code is a
// byte, two of E2M1 are, the first in the low nibble. They are Encode and Decode of every
// element, without a branch for a number's size.

// coder is what the conversion of a magnitude needs of a format: its largest value and smallest normal
// as float32 bits, and how far its fraction ends above float32's.
type coder struct{ largest, lowest, drop uint32 }

var coders = func() (c [formats]coder) {
	for _, f := range []Format{E4M3, E5M2, E2M1} {
		s := &table[f]
		c[f] = coder{math.Float32bits(float32(s.max)), uint32(s.minExp+127) << 23, uint32(23 - s.mantissa)}
	}
	return c
}()

func (f Format) coder() coder {
	if coders[f].drop == 0 {
		panic("lowp: codes under a scale are e4m3, e5m2 and e2m1")
	}
	return coders[f]
}

// nearest is the code of a magnitude that is not NaN. In a binade, or below the smallest normal,
// codes step as multiples of one power of two do: adding 2²³ of them makes float32 round
// to such a multiple, ties to even, and leaves its count in the low bits.
func (c coder) nearest(abs uint32) uint32 {
	abs = min(abs, c.largest)
	e := max(abs&0x7f800000, c.lowest)
	magic := e + c.drop<<23
	return (e-c.lowest)>>(c.drop&31) + math.Float32bits(math.Float32frombits(abs)+math.Float32frombits(magic)) - magic
}

const (
	magnitude = 1<<31 - 1
	infinite  = 0x7f800000
)

// EncodeScaled writes the codes of x·s, each product rounded to float32 first.
//
// Shapes: x (n), codes (n) bytes, or n/2 of e2m1.
func (f Format) EncodeScaled(codes []byte, x []float32, s float32) {
	c := f.coder()
	if f == E2M1 {
		encodeHalves(codes[:len(x)/2], x, s)
		return
	}
	codes = codes[:len(x)]
	var nan uint32 // its sign, once there is one: magnitudes above ∞ are NaN's
	for i, v := range x {
		b := math.Float32bits(float32(v * s))
		abs := b & magnitude
		nan |= infinite - abs
		codes[i] = byte(b>>31<<7 | c.nearest(abs))
	}
	if nan>>31 == 1 {
		for i, v := range x {
			if w := float32(v * s); w != w {
				codes[i] = byte(f.NaN())
			}
		}
	}
}

// EncodeEach is EncodeScaled with a scale for every element, for formats of a byte.
func (f Format) EncodeEach(codes []byte, x, s []float32) {
	c := f.coder()
	codes, s = codes[:len(x)], s[:len(x)]
	var nan uint32
	for i, v := range x {
		b := math.Float32bits(float32(v * s[i]))
		abs := b & magnitude
		nan |= infinite - abs
		codes[i] = byte(b>>31<<7 | c.nearest(abs))
	}
	if nan>>31 == 1 {
		for i, v := range x {
			if w := float32(v * s[i]); w != w {
				codes[i] = byte(f.NaN())
			}
		}
	}
}

// encodeHalves is EncodeScaled for e2m1.
func encodeHalves(codes []byte, x []float32, s float32) {
	for len(codes) > 0 && len(x) >= 2 {
		a, b := math.Float32bits(float32(x[0]*s)), math.Float32bits(float32(x[1]*s))
		codes[0] = half(a&magnitude) | half(b&magnitude)<<4 | byte(signHalf(a)<<3|signHalf(b)<<7)
		codes, x = codes[1:], x[2:]
	}
}

// A quarter of a binade, in float32 bits: where codes of e2m1 meet is always a multiple of it. Below
// leastHalf all is zero.
const quarter, leastHalf = 1 << 21, 0x3e000000

// halves is the code of a magnitude by its place: at each multiple of a quarter, and between two.
var halves = func() (v [64]byte) {
	for k := range uint32(len(v)) {
		v[k] = byte(coders[E2M1].nearest(leastHalf + k*(quarter/2)))
	}
	return v
}()

// half is coder.nearest for e2m1; it gives 6 for NaN. The floor and the ceiling of a magnitude in quarters
// are the same at a multiple and one apart between two.
func half(abs uint32) byte {
	abs = max(min(abs, 0x40c00000), leastHalf)
	return halves[(abs/quarter+(abs+quarter-1)/quarter-2*(leastHalf/quarter))&63]
}

// signHalf is the sign of the number with the bits b, which NaN has not.
func signHalf(b uint32) uint32 { return b >> 31 &^ ((infinite - b&magnitude) >> 31) }

// EncodeStochastic is EncodeScaled that rounds away from zero where adding an element's word to the
// discarded part, in units of 2⁻³² of a step, carries: with the probability of the discarded
// part, cut to 32 bits. One word an element, in the elements' order; what is a value stays it.
func (f Format) EncodeStochastic(codes []byte, x []float32, s float32, words []uint32) {
	c := f.coder()
	words = words[:len(x)]
	if f == E2M1 {
		for len(codes) > 0 && len(x) >= 2 && len(words) >= 2 {
			a, b := math.Float32bits(float32(x[0]*s)), math.Float32bits(float32(x[1]*s))
			lo := halfStochastic(a&magnitude, words[0]) | signHalf(a)<<3
			codes[0] = byte(lo | halfStochastic(b&magnitude, words[1])<<4 | signHalf(b)<<7)
			codes, x, words = codes[1:], x[2:], words[2:]
		}
		return
	}
	codes = codes[:len(x)]
	for i, v := range x {
		w := float32(v * s)
		if w != w {
			codes[i] = byte(f.NaN())
			continue
		}
		b := math.Float32bits(w)
		codes[i] = byte(b>>31<<7 | c.stochastic(b&magnitude, words[i]))
	}
}

// stochastic is nearest by carry; it gives the largest value for NaN.
func (c coder) stochastic(abs, word uint32) uint32 {
	abs = min(abs, c.largest)
	e := max(abs&infinite, c.lowest)
	// The fraction with its leading one, in units of 2⁻³² of the step between neighbours; a float32
	// subnormal has no leading one, and is less than a unit.
	q := uint64(abs&(1<<23-1)|1<<23) << ((32 - c.drop) & 31) >> (min((e-abs&infinite)>>23, 63) & 63)
	return (e-c.lowest)>>(c.drop&31) + uint32((q+uint64(word))>>32)
}

// halfStochastic is coder.stochastic for e2m1. From 1 on an exponent and its leading fraction bit count the codes, and a carry
// goes from the one into the other; below, codes are halves.
func halfStochastic(abs, word uint32) uint32 {
	abs = min(abs, 0x40c00000)
	q := uint64(abs-0x3f000000) << 10 // in units of 2⁻³² of a step
	// fits: 6·2³³ at most
	below := uint64(int64(math.Float32frombits(abs) * 0x1p33))
	if abs < 0x3f800000 {
		q = below
	}
	return uint32((q + uint64(word)) >> 32)
}

// DecodeScaled is y = value of the code · s.
//
// Shapes: y (n), codes (n) bytes, or n/2 of e2m1.
func (f Format) DecodeScaled(y []float32, codes []byte, s float32) {
	f.coder()
	v := &values[f]
	if f == E2M1 {
		for i, c := range codes[:len(y)/2] {
			p := y[2*i:][:2]
			p[0], p[1] = v[c&15]*s, v[c>>4]*s
		}
		return
	}
	for i, c := range codes[:len(y)] {
		y[i] = v[c] * s
	}
}

// DecodeEach is DecodeScaled with a scale for every element, for formats of a byte.
func (f Format) DecodeEach(y []float32, codes []byte, s []float32) {
	v := &values[f]
	s = s[:len(y)]
	for i, c := range codes[:len(y)] {
		y[i] = v[c] * s[i]
	}
}
