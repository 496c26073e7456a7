package lowp

import "math"

// The conversions below are those of tensors under a scale, to E4M3, E5M2 and E2M1. One code is a
// byte, two of E2M1 are, the first in the low nibble. They are Encode and Decode of every
// element, without a branch for a number's size.

// coder is what the conversion of a magnitude needs of a format: its largest value and smallest normal
// as float32 bits, and how far its fraction ends above float32's.
type coder struct{ largest, lowest, drop uint32 }

func (f Format) coder() coder {
	s := &table[f]
	if s.bits > 8 || s.kind == power {
		panic("lowp: codes under a scale are e4m3, e5m2 and e2m1")
	}
	return coder{math.Float32bits(float32(s.max)), uint32(s.minExp+127) << 23, uint32(23 - s.mantissa)}
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

// EncodeScaled writes the codes of x·s, each product rounded to float32 first.
//
// Shapes: x (n), codes (n) bytes, or n/2 of e2m1.
func (f Format) EncodeScaled(codes []byte, x []float32, s float32) {
	c := f.coder()
	if f == E2M1 {
		codes = codes[:len(x)/2]
		for i := range codes {
			p := x[2*i:][:2]
			codes[i] = c.half(float32(p[0]*s)) | c.half(float32(p[1]*s))<<4
		}
		return
	}
	codes = codes[:len(x)]
	for i, v := range x {
		b := math.Float32bits(float32(v * s))
		code := b>>31<<7 | c.nearest(b&^(1<<31))
		if b&^(1<<31) > 0x7f800000 {
			code = table[f].nan(b)
		}
		codes[i] = byte(code)
	}
}

// half is the code of v in e2m1, whose NaN is 6.
func (c coder) half(v float32) byte {
	b := math.Float32bits(v)
	abs := b &^ (1 << 31)
	if abs > 0x7f800000 {
		b = 0
	}
	return byte(b>>31<<3 | c.nearest(abs))
}

// EncodeEach is EncodeScaled with a scale for every element, for formats of a byte.
func (f Format) EncodeEach(codes []byte, x, s []float32) {
	c := f.coder()
	codes, s = codes[:len(x)], s[:len(x)]
	for i, v := range x {
		b := math.Float32bits(float32(v * s[i]))
		code := b>>31<<7 | c.nearest(b&^(1<<31))
		if b&^(1<<31) > 0x7f800000 {
			code = table[f].nan(b)
		}
		codes[i] = byte(code)
	}
}

// EncodeStochastic is EncodeScaled that rounds away from zero where adding an element's word to the
// discarded part, in units of 2⁻³² of a step, carries: with the probability of the discarded
// part, cut to 32 bits. One word an element, in the elements' order; what is a value stays it.
func (f Format) EncodeStochastic(codes []byte, x []float32, s float32, words []uint32) {
	c := f.coder()
	words = words[:len(x)]
	if f != E2M1 {
		codes = codes[:len(x)]
		for i, v := range x {
			b := math.Float32bits(float32(v * s))
			code := b>>31<<7 | c.stochastic(b&^(1<<31), words[i])
			if b&^(1<<31) > 0x7f800000 {
				code = table[f].nan(b)
			}
			codes[i] = byte(code)
		}
		return
	}
	codes = codes[:len(x)/2]
	for i := range codes {
		p, w := x[2*i:][:2], words[2*i:][:2]
		codes[i] = c.halfStochastic(float32(p[0]*s), w[0]) | c.halfStochastic(float32(p[1]*s), w[1])<<4
	}
}

// stochastic is nearest by carry.
func (c coder) stochastic(abs, word uint32) uint32 {
	abs = min(abs, c.largest)
	e := max(abs&0x7f800000, c.lowest)
	// abs in steps of 2⁻³² of its binade's own: an exact product, cut to an integer.
	steps := math.Float64frombits(uint64(1023+127+32+23-c.drop-e>>23) << 52)
	q := uint64(float64(math.Float32frombits(abs))*steps) + uint64(word)
	return (e-c.lowest)>>(c.drop&31) + uint32(q>>32)
}

func (c coder) halfStochastic(v float32, word uint32) byte {
	b := math.Float32bits(v)
	abs := b &^ (1 << 31)
	if abs > 0x7f800000 {
		b = 0
	}
	return byte(b>>31<<3 | c.stochastic(abs, word))
}

// values is the value of every code of the formats of a byte and less.
var values = func() (v [formats][256]float32) {
	for _, f := range []Format{E4M3, E5M2, E2M1} {
		for c := range uint32(1) << table[f].bits {
			v[f][c] = f.Decode(c)
		}
	}
	return v
}()

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
