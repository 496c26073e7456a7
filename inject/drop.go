package inject

import (
	"bytes"

	"firstbit/device"
)

var dropKind = &kind{Name: "drop", noun: "state", restores: true, Example: "drop@rng.dropout.tp",
	does: "omits states from a restore, or other Calls of it, on all ranks unless R is given: they keep what the run began with",
	make: func(s *Selector) (action, []field) {
		s.Phase = device.Load
		return drop{}, []field{s.rank()}
	}}

// drop is a Call of a restore that does not run.
type drop struct{ everyCall }

func (drop) run(f *Fault, c *device.Call, _ device.Runner) { f.act(otherwise(c)) }

// otherwise tells whether a Call of a restore that is omitted would have left other bits than there are.
func otherwise(c *device.Call) bool {
	if c.Kind != device.Loading || len(c.Out) != 1 { // the others take more with them than their output
		return true
	}
	if c.Body == nil {
		return false
	}
	t := c.Out[0].Tensor
	is := same(t)
	c.Body(c)
	changed := !bytes.Equal(t.Bytes(nil), is.Bytes(nil))
	t.CopyAt(0, is)
	return changed
}
