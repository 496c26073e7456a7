package diff

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"firstbit/lowp"
	"firstbit/trace"
)

const unconfirmed = "unconfirmed: no bytes were dumped at the root"

// settle compares the dumped bytes of the root's outputs, where both traces kept them.
func (r *Report) settle(p *pair) {
	if r.A == nil || r.B == nil {
		return
	}
	if r.First.Verdict == "origin" || r.First.Phase == "load" {
		r.Evidence = append(r.Evidence, unconfirmed)
	}
	for i := range r.A.Out {
		if i >= len(r.B.Out) || sigEqual(&r.A.Out[i], &r.B.Out[i]) || r.A.Out[i].Dump == "" || r.B.Out[i].Dump == "" {
			continue
		}
		r.pending = append(r.pending, dumped{r.A.Out[i], r.B.Out[i]})
	}
}

type dumped struct{ a, b trace.Sig }

// Confirm reads the dumped bytes under the two trace directories.
func (r *Report) Confirm(dirA, dirB string) error {
	for _, d := range r.pending {
		a, err := readDump(dirA, d.a)
		if err != nil {
			return err
		}
		b, err := readDump(dirB, d.b)
		if err != nil {
			return err
		}
		if d.a.Numel != d.b.Numel { // nothing to compare element by element
			r.confirm(fmt.Sprintf("confirmed by the dumped bytes: %s has %d elements and %d", d.a.Name, d.a.Numel, d.b.Numel))
			return nil
		}
		bytes, err := compareBytes(d.a, a, b)
		if err != nil {
			return err
		}
		if bytes != nil {
			r.Bytes = bytes
			r.confirm("confirmed by the dumped bytes")
			return nil
		}
	}
	return nil
}

// confirm settles an origin: bytes written settle who wrote, nothing else.
func (r *Report) confirm(evidence string) {
	if i := slices.Index(r.Evidence, unconfirmed); i >= 0 {
		r.Evidence[i], r.Confirmed = evidence, true
	}
}

func readDump(dir string, g trace.Sig) ([]byte, error) {
	path := filepath.Join(dir, filepath.FromSlash(g.Dump))
	if !filepath.IsLocal(filepath.FromSlash(g.Dump)) {
		return nil, fmt.Errorf("trace %s: dump %q: must be a file inside the trace", dir, g.Dump)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", path, err)
	}
	return b, nil
}

// compareBytes finds the first element that differs and counts them all.
func compareBytes(g trace.Sig, a, b []byte) (*Bytes, error) {
	f, err := lowp.Parse(g.Dtype)
	if err != nil {
		return nil, err
	}
	size := f.Bits() / 8
	if len(a) != len(b) || len(a) != size*g.Numel {
		return nil, fmt.Errorf("dump of %s: %d and %d bytes: must be %d", g.Name, len(a), len(b), size*g.Numel)
	}
	var out *Bytes
	for i := range g.Numel {
		x, y := a[i*size:(i+1)*size], b[i*size:(i+1)*size]
		if string(x) == string(y) {
			continue
		}
		if out == nil {
			out = &Bytes{Output: g.Name, Element: i, Of: g.Numel, integer: !f.Float()}
			out.A, out.ValueA = element(f, x)
			out.B, out.ValueB = element(f, y)
			out.Ulps = ulps(f, x, y)
		}
		out.Count++
	}
	return out, nil
}

func code(b []byte) uint64 {
	var w [8]byte
	copy(w[:], b)
	return binary.LittleEndian.Uint64(w[:])
}

// element writes an element's bits and its shortest decimal.
func element(f lowp.Format, b []byte) (bits, value string) {
	c := code(b)
	bits = fmt.Sprintf("%0*x", 2*len(b), c)
	switch {
	case f == lowp.FP64:
		return bits, strconv.FormatFloat(math.Float64frombits(c), 'g', -1, 64)
	case f.Float():
		return bits, strconv.FormatFloat(float64(f.Decode(uint32(c))), 'g', -1, 32)
	}
	return bits, strconv.Itoa(int(int32(c)))
}

// ulps is the distance of two elements; of integers, their difference.
func ulps(f lowp.Format, a, b []byte) uint64 {
	x, y := code(a), code(b)
	switch {
	case f == lowp.FP64:
		return lowp.Ulps64(math.Float64frombits(x), math.Float64frombits(y))
	case f.Float():
		return f.Ulps(f.Decode(uint32(x)), f.Decode(uint32(y)))
	}
	d := int64(int32(x)) - int64(int32(y))
	return uint64(max(d, -d))
}
