package diff

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"firstbit/lowp"
	"firstbit/trace"
)

// dtype reads tensors of one dtype from bytes: row-major, little-endian, of four bits two a byte, the first in the low nibble.
type dtype struct {
	bits    int
	float   bool
	format  lowp.Format // of floats
	signed  bool        // of integers
	boolean bool
}

// integers are the dtypes that are none of floats. Traces of other programs have them.
var integers = map[string]dtype{
	"bool": {bits: 8, boolean: true},
	"int8": {bits: 8, signed: true}, "int16": {bits: 16, signed: true}, "int32": {bits: 32, signed: true}, "int64": {bits: 64, signed: true},
	"uint8": {bits: 8}, "uint16": {bits: 16}, "uint32": {bits: 32}, "uint64": {bits: 64},
}

func dtypeOf(name string) (dtype, error) {
	if d, ok := integers[name]; ok {
		return d, nil
	}
	f, err := lowp.Parse(name)
	if err != nil {
		return dtype{}, fmt.Errorf("dtype %q is not known, so they cannot be read", name)
	}
	return dtype{bits: f.Bits(), float: f.Float(), format: f}, nil
}

// size is the bytes of n elements.
func (d dtype) size(n int) int { return (n*d.bits + 7) / 8 }

// at is the code of element i.
func (d dtype) at(b []byte, i int) uint64 {
	if d.bits == 4 {
		return uint64(b[i/2]>>(i%2*4)) & 15
	}
	var w [8]byte
	size := d.bits / 8
	copy(w[:], b[i*size:(i+1)*size])
	return binary.LittleEndian.Uint64(w[:])
}

// compare finds the first element that differs and counts them all.
func (d dtype) compare(g trace.Sig, a, b []byte) (*Bytes, error) {
	if want := d.size(g.Numel); len(a) != want || len(b) != want {
		return nil, fmt.Errorf("the bytes of %s: %d and %d: must be %d, of %d elements of %s", g.Name, len(a), len(b), want, g.Numel, g.Dtype)
	}
	out := &Bytes{Output: g.Name, Of: g.Numel, integer: !d.float}
	for i := range g.Numel {
		x, y := d.at(a, i), d.at(b, i)
		if x == y {
			continue
		}
		if out.Count == 0 {
			out.Element, out.Ulps = i, d.distance(x, y)
			out.A, out.ValueA = d.text(x)
			out.B, out.ValueB = d.text(y)
		}
		out.Count++
	}
	if out.Count == 0 {
		return nil, fmt.Errorf("the bytes of %s: are equal, though their digests differ", g.Name)
	}
	return out, nil
}

// text is an element's bits in hex and its shortest decimal.
func (d dtype) text(code uint64) (bits, value string) {
	bits = fmt.Sprintf("%0*x", d.bits/4, code)
	switch {
	case d.boolean && code < 2:
		return bits, strconv.FormatBool(code == 1)
	case d.float && d.format == lowp.FP64:
		return bits, strconv.FormatFloat(math.Float64frombits(code), 'g', -1, 64)
	case d.float:
		return bits, strconv.FormatFloat(float64(d.format.Decode(uint32(code))), 'g', -1, 32)
	case d.signed:
		return bits, strconv.FormatInt(d.extended(code), 10)
	}
	return bits, strconv.FormatUint(code, 10)
}

// extended is a code with its sign.
func (d dtype) extended(code uint64) int64 {
	shift := 64 - d.bits
	return int64(code<<shift) >> shift
}

// distance is that of two elements in ulps; of integers, their difference.
func (d dtype) distance(x, y uint64) uint64 {
	switch {
	case d.float:
		return d.format.CodeUlps(x, y)
	case d.signed: // modulo 2⁶⁴, which holds every distance
		x, y = uint64(d.extended(x)), uint64(d.extended(y))
		if int64(x) < int64(y) {
			x, y = y, x
		}
		return x - y
	}
	return max(x, y) - min(x, y)
}
