package device

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/zeebo/xxh3"

	"firstbit/lowp"
)

// Digest is an XXH3-128, seed 0.
type Digest [16]byte

// Bytes is the tensor's elements, row-major and little-endian, each at its
// format's width. The slice may alias the tensor's storage or buf.
func (t *Tensor) Bytes(buf []byte) []byte {
	switch {
	case t.Len() == 0:
		return buf[:0]
	case t.f32 != nil && t.Format != lowp.FP32:
		return t.Format.AppendBytes(buf[:0], t.f32)
	case t.f32 != nil && littleEndian:
		return unsafe.Slice((*byte)(unsafe.Pointer(&t.f32[0])), 4*len(t.f32))
	case t.f32 != nil:
		return lowp.FP32.AppendBytes(buf[:0], t.f32)
	case t.f64 != nil:
		buf = buf[:0]
		for _, v := range t.f64 {
			buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(v))
		}
	default:
		buf = buf[:0]
		for _, v := range t.i32 {
			buf = binary.LittleEndian.AppendUint32(buf, uint32(v))
		}
	}
	return buf
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// Digest fingerprints dtype, shape and elements:
//
//	XXH3-128(dtype NUL rank dims… XXH3-128(elements))
//
// rank and dims as little-endian uint64, the inner hash in its canonical 16 bytes.
// Source: docs/traces.md, Digests.
func (t *Tensor) Digest(buf []byte) Digest { return DigestOf(t.Format, t.Shape(), t.Bytes(buf)) }

// DigestOf is the Digest of a tensor whose elements are given as bytes.
func DigestOf(f lowp.Format, shape []int, elements []byte) Digest {
	inner := xxh3.Hash128(elements).Bytes()
	var head [128]byte
	h := append(head[:0], f.String()...)
	h = append(h, 0)
	h = binary.LittleEndian.AppendUint64(h, uint64(len(shape)))
	for _, d := range shape {
		h = binary.LittleEndian.AppendUint64(h, uint64(d))
	}
	h = append(h, inner[:]...)
	return xxh3.Hash128(h).Bytes()
}

// XOR is torch.hash_tensor mode 0: floats widened to float64 and taken as bits, integers
// sign-extended, codes of eight bits or fewer as the bytes that hold them, XOR over the elements. It is blind to order, pairs and zeros; a
// Digest beside it is not.
//
// Source: docs/facts.md, Fingerprints.
func (t *Tensor) XOR() uint64 {
	var x uint64
	if t.f32 != nil && t.Format.Bits() <= 8 {
		return lowp.XORCodes(t.Bytes(nil))
	}
	for _, v := range t.f32 {
		x ^= math.Float64bits(float64(v))
	}
	for _, v := range t.f64 {
		x ^= math.Float64bits(v)
	}
	for _, v := range t.i32 {
		x ^= uint64(int64(v))
	}
	return x
}
