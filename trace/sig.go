package trace

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/zeebo/xxh3"

	"firstbit/device"
	"firstbit/lowp"
)

// signer makes fingerprints, reusing its buffer.
type signer struct{ buf []byte }

func (s *signer) tensor(a device.Arg) Sig {
	if need := 8 * a.Len(); cap(s.buf) < need {
		s.buf = make([]byte, 0, need)
	}
	d := a.Digest(s.buf)
	g := Sig{Name: a.Name, Shape: a.Shape(), Dtype: a.Format.String(), Numel: a.Len(),
		XOR: fmt.Sprintf("%016x", a.XOR()), Digest: hex.EncodeToString(d[:])}
	if a.Format == lowp.INT32 {
		g.Rows = s.rows(a.Tensor)
	}
	return g
}

// rows hashes each leading index apart, 64-element chunks of a vector, so that a
// permutation shows and can be placed.
func (s *signer) rows(t *device.Tensor) []string {
	b := t.Bytes(s.buf)
	size := 4 * 64
	if shape := t.Shape(); len(shape) > 1 {
		size = len(b) / max(shape[0], 1)
	}
	var rows []string
	for len(b) > 0 {
		n := min(size, len(b))
		rows = append(rows, fmt.Sprintf("%016x", xxh3.Hash(b[:n])))
		b = b[n:]
	}
	return rows
}

func (s *signer) scalar(c device.Scalar) Sig {
	bits := lowp.Bits(c.Value)
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], bits)
	inner := xxh3.Hash128(b[:]).Bytes()
	head := append([]byte("fp64\x00"), make([]byte, 8)...) // rank 0: no dims
	d := xxh3.Hash128(append(head, inner[:]...)).Bytes()
	g := Sig{Name: c.Name, Shape: []int{}, Dtype: "fp64", Numel: 1, Scalar: true,
		XOR: fmt.Sprintf("%016x", bits), Digest: hex.EncodeToString(d[:])}
	if v := c.Value; !math.IsNaN(v) && !math.IsInf(v, 0) {
		g.Value = &v
	}
	return g
}

// partial fingerprints one contribution to a sum.
func (s *signer) partial(p device.Partial) Contribution {
	s.buf = s.buf[:0]
	for _, v := range p.F32 {
		s.buf = binary.LittleEndian.AppendUint32(s.buf, lowp.FP32.Encode(v))
	}
	for _, v := range p.F64 {
		s.buf = binary.LittleEndian.AppendUint64(s.buf, lowp.Bits(v))
	}
	return Contribution{Row: p.Row, Tile: p.Tile, Reverse: p.Reverse, Digest: fmt.Sprintf("%016x", xxh3.Hash(s.buf))}
}
