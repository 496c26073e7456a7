package inject

import (
	"fmt"

	"firstbit/device"
	"firstbit/trace"
	"firstbit/tune"
)

var unwrittenKind = &kind{Name: "unwritten", noun: "Call", phase: tune.StepPhases, Example: "unwritten@layers.1.attn.wq rows=3-5 step=2",
	does: "rows of an output are not written: they hold what the Call wrote there last, zero before; rows are what the first extent counts",
	make: func(*Selector) (action, []field) {
		x := &unwritten{}
		return x, []field{given(field{Key: tune.Key{Name: "rows", Value: "SET", Text: func() string { return x.rows.String() },
			Take: func(value string) (err error) { x.rows, err = trace.ParseSet(value); return err }}}), x.output.field()}
	}}

// unwritten is rows that a kernel leaves out.
type unwritten struct {
	everyCall
	output
	history
	rows trace.Set
}

func (x *unwritten) fit(f *Fault, c *device.Call) { x.output.of(f, c) }

func (x *unwritten) follow(f *Fault, c *device.Call, now bool, next device.Runner) {
	before := outputs(c)
	next(c)
	if t := x.output.of(f, c); now && t != nil {
		x.leave(f, c, t, before)
	}
	x.keep(c)
}

func (x *unwritten) leave(f *Fault, c *device.Call, t *device.Tensor, before []*device.Tensor) {
	rows, width := rowsOf(t)
	if !x.rows.Within(0, rows-1) {
		f.fail(c, "rows=%s: the output has %s", x.rows, fmt.Sprintf("rows from 0 to %d", rows-1))
		return
	}
	i := 0
	for c.Out[i].Tensor != t {
		i++
	}
	is, old := same(t), x.last(c, i, before[i])
	for r := range rows {
		if x.rows.Has(r) {
			move(t, old, r*width, width)
		}
	}
	f.act(!equal(t, is))
}
