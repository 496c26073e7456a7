package lowp

import (
	"encoding/binary"
	"math"
	"slices"
)

// AppendBytes appends the elements' codes, row-major, little-endian, each at the width of f: of
// e2m1 two a byte, the first in the low nibble, and zeros above the last of an odd number.
//
// Source: docs/traces.md, Digests.
func (f Format) AppendBytes(dst []byte, x []float32) []byte {
	switch f.small().bits {
	case 32:
		for _, v := range x {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
		}
	case 16:
		n := len(dst)
		dst = slices.Grow(dst, 2*len(x))[:n+2*len(x)]
		for i, v := range x {
			c := math.Float32bits(v) >> 16
			if f != BF16 || math.Float32bits(v)&0xffff != 0 { // bf16 is float32's upper half
				c = f.Encode(v)
			}
			binary.LittleEndian.PutUint16(dst[n+2*i:], uint16(c))
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
