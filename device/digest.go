package device

import (
	"encoding/binary"
	"unsafe"

	"github.com/zeebo/xxh3"

	"firstbit/lowp"
)

// Digest is an XXH3-128, seed 0.
type Digest [16]byte

// Bytes is the tensor's elements, row-major and little-endian, each at its
// format's width, every NaN as the format's one. The slice may alias the tensor's storage or buf.
func (t *Tensor) Bytes(buf []byte) []byte {
	if b, ok := t.raw(); ok {
		return b
	}
	buf = buf[:0]
	switch {
	case t.f32 != nil:
		return t.Format.AppendBytes(buf, t.f32)
	case t.f64 != nil:
		for _, v := range t.f64 {
			buf = binary.LittleEndian.AppendUint64(buf, lowp.Bits(v))
		}
	default:
		for _, v := range t.i32 {
			buf = binary.LittleEndian.AppendUint32(buf, uint32(v))
		}
	}
	return buf
}

// raw is the storage, where that is what Bytes promises.
func (t *Tensor) raw() (b []byte, ok bool) {
	switch {
	case t.Len() == 0:
		return nil, true
	case !littleEndian:
		return nil, false
	case t.f64 != nil:
		return unsafe.Slice((*byte)(unsafe.Pointer(&t.f64[0])), 8*len(t.f64)), !lowp.HasNaN64(t.f64)
	case t.i32 != nil:
		return unsafe.Slice((*byte)(unsafe.Pointer(&t.i32[0])), 4*len(t.i32)), true
	case t.Format != lowp.FP32:
		return nil, false
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&t.f32[0])), 4*len(t.f32)), !lowp.HasNaN(t.f32)
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// Digest fingerprints dtype, shape and elements:
//
//	XXH3-128(dtype NUL rank dims… XXH3-128(elements))
//
// rank and dims as little-endian uint64, the inner hash in its canonical 16 bytes. Elements are those of Bytes: every
// NaN counts as one, because processors give those that they make different signs and payloads.
//
// Source: docs/traces.md, Digests.
func (t *Tensor) Digest(buf []byte) Digest { return DigestOf(t.Format, t.Shape(), t.Bytes(buf)) }

// DigestOf is the Digest of a tensor whose elements are given as Bytes has them.
func DigestOf(f lowp.Format, shape []int, elements []byte) Digest {
	return DigestNamed(f.String(), shape, elements)
}

// DigestNamed is DigestOf by the name of the dtype, be it no format of ours.
func DigestNamed(dtype string, shape []int, elements []byte) Digest {
	inner := xxh3.Hash128(elements).Bytes()
	var head [128]byte
	h := append(head[:0], dtype...)
	h = append(h, 0)
	h = binary.LittleEndian.AppendUint64(h, uint64(len(shape)))
	for _, d := range shape {
		h = binary.LittleEndian.AppendUint64(h, uint64(d))
	}
	h = append(h, inner[:]...)
	return xxh3.Hash128(h).Bytes()
}

// XOR is torch.hash_tensor mode 0: floats widened to float64 and taken as bits, integers
// sign-extended, codes of eight bits or fewer as the bytes that hold them, XOR over the elements. Every NaN is the one of fp64, or of
// the codes. It is blind to order, pairs and zeros; a Digest beside it is not.
//
// Source: docs/facts.md, Fingerprints.
func (t *Tensor) XOR() uint64 {
	switch {
	case t.f32 != nil && t.Format.Bits() <= 8:
		return lowp.XORCodes(t.Bytes(nil))
	case t.f32 != nil:
		return lowp.XOR(t.f32)
	case t.f64 != nil:
		return lowp.XOR64(t.f64)
	}
	var x uint64
	for _, v := range t.i32 {
		x ^= uint64(int64(v))
	}
	return x
}
