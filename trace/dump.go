package trace

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"firstbit/device"
)

// Dumped tells whether any rank has kept bytes of a Call.
func (t *Tracer) Dumped() bool {
	return slices.ContainsFunc(t.byRank(), func(r *Tracer) bool { return r.dumped })
}

// dump keeps the elements of a matching Call's tensors beside the record.
func (t *Tracer) dump(c *device.Call, r *Record) {
	if t.Dump == "" || !c.Matches(t.Dump) {
		return
	}
	t.dumped = true
	dir := filepath.Join("dump", fmt.Sprintf("rank%05d_iter%06d_micro%d_%s", t.rank, r.Iteration, r.Microbatch, r.Phase))
	for _, a := range c.Out { // inputs may have been updated in place by now; outputs settle it
		name := filepath.Join(dir, strings.ReplaceAll(Path(c.Scope, c.Label), "/", "_")+"."+a.Name+".bin")
		if t.err == nil {
			t.err = t.failed(t.keep(dir, name, a.Bytes(t.sign.buf)))
		}
		for i := range r.Out {
			if r.Out[i].Name == a.Name {
				r.Out[i].Dump = filepath.ToSlash(name)
			}
		}
	}
}

func (t *Tracer) keep(dir, name string, b []byte) error {
	t.wrote = append(t.wrote, dir, name)
	if err := os.MkdirAll(filepath.Join(t.Dir, dir), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(t.Dir, name), b, 0o644)
}
