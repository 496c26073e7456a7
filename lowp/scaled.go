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
				codes[i] = byte(f.Encode(w))
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
				codes[i] = byte(f.Encode(w))
			}
		}
	}
}

// encodeHalves is EncodeScaled for e2m1.
func encodeHalves(codes []byte, x []float32, s float32) {
	for i := range codes {
		p := x[2*i:][:2]
		a, b := math.Float32bits(float32(p[0]*s)), math.Float32bits(float32(p[1]*s))
		codes[i] = byte(half(a&magnitude) | signHalf(a)<<3 | half(b&magnitude)<<4 | signHalf(b)<<7)
	}
}

// half is coder.nearest for e2m1; it gives 6 for NaN.
func half(abs uint32) uint32 {
	abs = min(abs, 0x40c00000)
	e := max(abs&infinite, 0x3f800000)
	magic := e + 22<<23
	return (e-0x3f800000)>>22 + math.Float32bits(math.Float32frombits(abs)+math.Float32frombits(magic)) - magic
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
		codes = codes[:len(x)/2]
		for i := range codes {
			p, w := x[2*i:][:2], words[2*i:][:2]
			a, b := math.Float32bits(float32(p[0]*s)), math.Float32bits(float32(p[1]*s))
			lo := c.stochastic(a&magnitude, w[0]) | signHalf(a)<<3
			codes[i] = byte(lo | c.stochastic(b&magnitude, w[1])<<4 | signHalf(b)<<7)
		}
		return
	}
	codes = codes[:len(x)]
	for i, v := range x {
		w := float32(v * s)
		if w != w {
			codes[i] = byte(f.Encode(w))
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
	// abs in units of 2⁻³² of the step between its neighbours: an exact product, cut to an integer.
	units := math.Float64frombits(uint64(1023+127+32+23-c.drop-e>>23) << 52)
	q := uint64(int64(float64(math.Float32frombits(abs))*units)) + uint64(word)
	return (e-c.lowest)>>(c.drop&31) + uint32(q>>32)
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
