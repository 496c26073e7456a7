package experiments

import (
	"slices"

	"firstbit/trace"
)

// sameXOR tells whether the root wrote an output that an XOR of its elements cannot tell apart, and the digest and those of its rows can.
func (r *Result) sameXOR() bool {
	a, b := r.Report.A, r.Report.B
	if a == nil || b == nil {
		return false
	}
	for i := range a.Out {
		x, y := &a.Out[i], &b.Out[i]
		if x.Digest != y.Digest && x.XOR == y.XOR && len(x.Rows) > 0 && !slices.Equal(x.Rows, y.Rows) {
			return true
		}
	}
	return false
}

// later tells whether, by their names, another Call that differs comes before the root.
func (r *Result) later() bool {
	return slices.ContainsFunc(r.Report.Differing, func(d *trace.Record) bool { return d.Kind == "op" && trace.Path(d.Scope, d.Name) < r.Fault.Root.Path() })
}
