package lowp

import (
	"encoding/binary"
	"math"
	"slices"
)

// AppendBytes appends the elements' codes, row-major, little-endian, each at the width of f: of
// e2m1 two a byte, the first in the low nibble, and zeros above the last of an odd number. Every NaN has NaN's code.
//
// Source: docs/traces.md, Digests.
func (f Format) AppendBytes(dst []byte, x []float32) []byte {
	switch f.small().bits {
	case 32:
		n := len(dst)
		dst = slices.Grow(dst, 4*len(x))[:n+4*len(x)]
		for i, v := range x {
			binary.LittleEndian.PutUint32(dst[n+4*i:], f.Encode(v))
		}
	case 16:
		n := len(dst)
		dst = slices.Grow(dst, 2*len(x))[:n+2*len(x)]
		if f == BF16 && !upperHalves(dst[n:], x) {
			return dst
		}
		for i, v := range x {
			binary.LittleEndian.PutUint16(dst[n+2*i:], uint16(f.Encode(v)))
		}
	case 8:
		for _, v := range x {
			dst = append(dst, byte(f.Encode(v)))
		}
	case 4:
		for i, v := range x {
			if i%2 == 0 {
				dst = append(dst, byte(f.Encode(v)))
			} else {
				dst[len(dst)-1] |= byte(f.Encode(v) << 4)
			}
		}
	}
	return dst
}

// upperHalves writes bf16 codes: of its values the upper halves are. It tells whether there was something else: a NaN, or no value of bf16.
func upperHalves(dst []byte, x []float32) (odd bool) {
	if n := len(x) &^ 15; vectorised && n > 0 {
		_ = dst[2*n-1] // the vectors check no bounds
		odd = upperHalves16(&dst[0], &x[0], n)
		dst, x = dst[2*n:], x[n:]
	}
	return upperHalvesPlain(dst, x) || odd
}

func upperHalvesPlain(dst []byte, x []float32) bool {
	var odd uint32
	dst = dst[:2*len(x)]
	for i, v := range x {
		b := math.Float32bits(v)
		odd |= b<<16 | (b&magnitude+reach)&^magnitude
		binary.LittleEndian.PutUint16(dst[2*i:], uint16(b>>16))
	}
	return odd != 0
}

// FromBytes reads what AppendBytes wrote; a last nibble that AppendBytes filled up is an element.
func (f Format) FromBytes(b []byte) []float32 {
	bits := f.small().bits
	if 8*len(b)%bits != 0 {
		panic("lowp: bytes that are not whole elements")
	}
	x := make([]float32, 8*len(b)/bits)
	for i := range x {
		switch bits {
		case 32:
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		case 16:
			x[i] = f.Decode(uint32(binary.LittleEndian.Uint16(b[2*i:])))
		case 8:
			x[i] = f.Decode(uint32(b[i]))
		case 4:
			x[i] = f.Decode(uint32(b[i/2] >> (i % 2 * 4) & 15))
		}
	}
	return x
}
