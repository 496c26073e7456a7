package trace

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"

	"github.com/zeebo/xxh3"

	"firstbit/device"
	"firstbit/state"
)

// Sum is an unsigned number of 128 bits. Sums of the pieces of a whole add up to that of the whole, in whatever pieces it is cut.
type Sum struct{ Hi, Lo uint64 }

// Add is the sum modulo 2¹²⁸.
func (s Sum) Add(o Sum) Sum {
	lo, carry := bits.Add64(s.Lo, o.Lo, 0)
	hi, _ := bits.Add64(s.Hi, o.Hi, carry)
	return Sum{hi, lo}
}

// String is 32 hex digits.
func (s Sum) String() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], s.Hi)
	binary.BigEndian.PutUint64(b[8:], s.Lo)
	return hex.EncodeToString(b[:])
}

// ParseSum reads 32 hex digits.
func ParseSum(text string) (s Sum, ok bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 16 {
		return s, false
	}
	return Sum{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, true
}

// PartsDigest names these sums in the definitions of digests.
const PartsDigest = "parts"

// partsDefinition is how run.json defines the sums.
const partsDefinition = "Σ mod 2^128 over the elements of XXH3-128 seed 0 of (index in the whole, row-major, as little-endian uint64, then the element's bytes, little-endian)"

// SumOf is that of a piece of a whole, from its elements as device.Tensor.Bytes has them.
//
//	Σ mod 2¹²⁸ over elements of XXH3-128(index in the whole as little-endian uint64, bytes of the element)
//
// It is false where elements are no whole bytes, or the place is not that of such a piece.
func SumOf(p state.Place, elements int, b []byte) (sum Sum, ok bool) {
	if elements == 0 || len(b)%elements != 0 || len(b)/elements == 0 || len(b)/elements > 8 {
		return sum, false
	}
	var text [16]byte
	width := len(b) / elements
	err := p.Runs(elements, func(from, to, n int) {
		for i := range n {
			binary.LittleEndian.PutUint64(text[:], uint64(to+i))
			copy(text[8:], b[(from+i)*width:(from+i+1)*width])
			h := xxh3.Hash128(text[:8+width])
			sum = sum.Add(Sum{h.Hi, h.Lo})
		}
	})
	return sum, err == nil
}

// place records where an argument lies in the whole, and its sum.
func (t *Tracer) place(c *device.Call, a device.Arg, g *Sig, output bool) {
	if !t.Parts || t.Place == nil {
		return
	}
	p := t.Place(c, a, output)
	if p == nil {
		return
	}
	sum, ok := SumOf(*p, a.Len(), a.Bytes(t.sign.buf))
	if !ok {
		return
	}
	g.Place, g.Parts = p, sum.String()
}
