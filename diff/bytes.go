package diff

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"firstbit/device"
	"firstbit/files"
	"firstbit/trace"
)

const unconfirmed = "unconfirmed: no bytes were dumped at the root"

// maxDump bounds the bytes of one tensor.
const maxDump = 1 << 30

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

// Confirm compares the dumped bytes under the two trace directories. The records have given the verdict: what bytes cannot be read leaves it
// as it is, and says why.
func (r *Report) Confirm(dirA, dirB string) {
	var why []string
	for _, d := range r.pending {
		bytes, err := CompareDumps(d.a, d.b, dirA, dirB)
		if err != nil {
			why = append(why, err.Error())
			continue
		}
		evidence := "confirmed by the dumped bytes"
		if r.Bytes = bytes; bytes == nil { // nothing to compare element by element
			evidence += fmt.Sprintf(": %s is %s and %s", d.a.Name, form(d.a), form(d.b))
		}
		r.confirm(evidence)
		break
	}
	for _, w := range why {
		if i := slices.Index(r.Evidence, unconfirmed); i >= 0 {
			r.Evidence[i] = "unconfirmed: " + w
		} else {
			r.Evidence = append(r.Evidence, w)
		}
	}
}

// confirm settles an origin: bytes written settle who wrote, nothing else.
func (r *Report) confirm(evidence string) {
	if i := slices.Index(r.Evidence, unconfirmed); i >= 0 {
		r.Evidence[i], r.Confirmed = evidence, true
	}
}

func form(g trace.Sig) string { return fmt.Sprintf("%s %v", g.Dtype, g.Shape) }

// CompareDumps compares the dumped bytes of an output of two traces, of which it finds the first element that differs and counts them all.
// It gives nil for tensors of different shapes or dtypes.
//
// Errors: one line, of bytes that are not there, are not those of the record's digest, or whose dtype is not known.
func CompareDumps(a, b trace.Sig, dirA, dirB string) (*Bytes, error) {
	x, err := readDump(dirA, a)
	if err != nil {
		return nil, err
	}
	y, err := readDump(dirB, b)
	if err != nil || form(a) != form(b) {
		return nil, err
	}
	e, err := dtypeOf(a.Dtype)
	if err != nil {
		return nil, fmt.Errorf("the bytes of %s: %w", a.Name, err)
	}
	return e.compare(a, x, y)
}

// readDump reads the bytes that a record names, and holds them against its digest.
func readDump(dir string, g trace.Sig) ([]byte, error) {
	path := filepath.FromSlash(g.Dump)
	if !filepath.IsLocal(path) {
		return nil, fmt.Errorf("trace %s: dump %q: must be a file inside the trace", dir, g.Dump)
	}
	path = filepath.Join(dir, path)
	if !counted(g) {
		return nil, fmt.Errorf("trace %s: the record has %d elements of shape %v", path, g.Numel, g.Shape)
	}
	b, err := files.Read(path, dumpSize(g))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("trace %s: is missing", path)
	case err != nil:
		return nil, fmt.Errorf("trace %s: %w", path, files.Reason(err))
	}
	if d := device.DigestNamed(g.Dtype, g.Shape, b); hex.EncodeToString(d[:]) != g.Digest {
		return nil, fmt.Errorf("trace %s: is damaged: its bytes are not those of the record's digest", path)
	}
	return b, nil
}

// counted tells whether a tensor has as many elements as its shape says, and not more than there can be.
func counted(g trace.Sig) bool {
	n := 1
	for _, extent := range g.Shape {
		if extent < 0 || extent > maxDump || n*extent > 8*maxDump {
			return false
		}
		n *= extent
	}
	return n == g.Numel
}

// dumpSize is how many bytes a tensor has, or may have where its dtype is not known.
func dumpSize(g trace.Sig) int64 {
	d, err := dtypeOf(g.Dtype)
	if err != nil {
		return maxDump
	}
	return min(maxDump, int64(d.size(g.Numel)))
}
