package lowp

import (
	"encoding/binary"
	"math"
	"slices"
)

// AppendBytes appends the elements' codes, row-major, little-endian, each at the width of f.
//
// Source: DESIGN §4, the elements of a digest.
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
	}
	return dst
}

// FromBytes reads what AppendBytes wrote.
func (f Format) FromBytes(b []byte) []float32 {
	size := f.small().bits / 8
	if len(b)%size != 0 {
		panic("lowp: bytes that are not whole elements")
	}
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
