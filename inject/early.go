package inject

import (
	"slices"

	"firstbit/device"
	"firstbit/spell"
	"firstbit/tune"
)

var earlyKind = &kind{Name: "early", noun: "Call", phase: tune.StepPhases, Example: "early@grads.bucket.0 step=2",
	does: "a Call reads an input before it was written, the first one or all that a bucket holds: parts of it, which the schedule chooses, are what the memory held before, zero before the first write",
	make: func(*Selector) (action, []field) {
		x := &early{}
		return x, []field{word("in", "NAME", &x.name)}
	}}

// early is a reader that does not wait for the writer.
type early struct {
	everyCall
	name   string // of the input; empty: the first, or all that lie in one memory
	writes []*write
}

// write is what lay where a Call wrote, as it was before.
type write struct {
	by         uint64 // key of the Call
	at, before *device.Tensor
}

func (x *early) watch(f *Fault, c *device.Call, selected bool, next device.Runner) {
	before := x.note(c)
	if selected {
		x.read(f, c, next)
	} else {
		next(c)
	}
	for _, w := range before {
		x.keep(w)
	}
}

// note is what a Call is about to write over. The wait for a collective only says that all of it is there: the start wrote it.
func (x *early) note(c *device.Call) (all []*write) {
	if c.Kind == device.Module || c.Kind == device.State || waits(c) {
		return nil
	}
	for _, out := range c.Out {
		all = append(all, &write{c.Key(), out.View(0, out.Len()), same(out.Tensor)})
	}
	return all
}

// waits tells whether a Call waits for a collective.
func waits(c *device.Call) bool { return c.Kind == device.Collective && named(c.In, "result") != nil }

// keep forgets what the Call wrote there before.
func (x *early) keep(w *write) {
	lo, _ := w.at.Span()
	x.writes = slices.DeleteFunc(x.writes, func(old *write) bool {
		from, _ := old.at.Span()
		return old.by == w.by && from == lo
	})
	x.writes = append(x.writes, w)
}

func (x *early) read(f *Fault, c *device.Call, next device.Runner) {
	read := x.inputs(f, c)
	var old, is []*device.Tensor
	rows := 0
	for _, t := range read {
		old, is = append(old, x.before(t)), append(is, same(t))
		n, _ := rowsOf(t)
		rows += n
	}
	early, taken := choose(c, "early", rows), [][]bool(nil)
	for _, t := range read {
		n, _ := rowsOf(t)
		taken, early = append(taken, early[:n]), early[n:]
	}
	mixed(f, c, read, old, is, taken, next)
}

// inputs are what is read early.
func (x *early) inputs(f *Fault, c *device.Call) (read []*device.Tensor) {
	var names []string
	for _, in := range c.In {
		names = append(names, in.Name)
		if x.name == in.Name || x.name == "" && (len(read) == 0 || c.Whole != nil) {
			read = append(read, in.Tensor)
		}
	}
	switch {
	case len(names) == 0:
		f.fail(c, "reads nothing")
	case len(read) == 0:
		f.fail(c, "has no input %q: %s", x.name, spell.OneOf(x.name, names))
	}
	return read
}

// before is what a tensor held before each of its elements was last written.
func (x *early) before(t *device.Tensor) *device.Tensor {
	old := device.NewTensor(t.Format, t.Shape()...)
	for _, w := range x.writes {
		each(t, []device.Arg{{Tensor: w.at}}, func(at, n int) {
			each(w.at, []device.Arg{{Tensor: t}}, func(from, n int) { old.CopyAt(at, w.before.View(from, from+n)) })
		})
	}
	return old
}
