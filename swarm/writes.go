package swarm

import (
	"fmt"
	"slices"

	"firstbit/trace"
)

// at is a fault of one instance of a Call.
func at(kind string, r *trace.Record) Fault {
	return Fault{Kind: kind, Name: trace.Path(r.Scope, r.Name), Phase: r.Phase, Step: r.Iteration, Rank: r.Rank, Micro: r.Microbatch}
}

func (f *Fault) text(format string, a ...any) {
	f.Text = fmt.Sprintf("%s@%s", f.Kind, f.Name) + fmt.Sprintf(format, a...)
}

// flips draws a bit of an element that any Call writes, as the kernel writes it, or in memory afterwards.
func flips(when string) func(d die, c *Case, b *bench) bool {
	return func(d die, c *Case, b *bench) bool {
		f, ok := d.flip(b.a, when, func(r *trace.Record) bool { return r.Iteration > 0 })
		c.Faults = []Fault{f}
		return ok
	}
}

func (d die) flip(t *trace.Trace, when string, of func(*trace.Record) bool) (f Fault, ok bool) {
	r := d.record(t, func(r *trace.Record) bool { return writes(r) && of(r) })
	if r == nil {
		return f, false
	}
	f = at("flip", r)
	out, elem, bit, ok := d.element(r)
	f.Out = out.Name
	if !ok {
		return f, false
	}
	bits := fmt.Sprintf("bit=%d", bit)
	if d.chance(20) {
		bits = fmt.Sprintf("mask=%x", 1<<bit|1<<d.Intn(bit+1))
	}
	if d.chance(20) {
		bits += fmt.Sprintf(" stuck=%d", d.Intn(2))
	}
	f.here(" out=%s %s %s%s", f.Out, d.elements(out, elem), bits, when)
	return f, true
}

// here ends the text with where the fault is.
func (f *Fault) here(format string, a ...any) {
	f.text(" step=%d rank=%d micro=%d phase=%s%s", f.Step, f.Rank, f.Micro, f.Phase, fmt.Sprintf(format, a...))
}

// elements are an element of an output, or more of them.
func (d die) elements(out *trace.Sig, elem int) string {
	switch {
	case d.chance(10) && len(out.Shape) > 0:
		return fmt.Sprintf("row=%d", d.Intn(out.Shape[0]))
	case d.chance(10) && elem > 0:
		return fmt.Sprintf("elem=%d count=%d stride=%d", elem%2, 1+(out.Numel-1-elem%2)/elem, elem)
	}
	return fmt.Sprintf("elem=%d", elem)
}

// values draws a value that is written over an output.
func values(d die, c *Case, b *bench) bool {
	r := d.record(b.a, writes)
	if r == nil || r.Iteration == 0 {
		return false
	}
	f := at("set", r)
	out, elem, _, ok := d.element(r)
	value := one(d, []string{"0", "1", "-1.5", "1e30", "nan", "inf", "-inf"})
	if out.Dtype == "int32" {
		value = fmt.Sprint(d.Intn(3))
	}
	f.Out = out.Name
	f.here(" value=%s out=%s %s", value, f.Out, d.elements(out, elem))
	c.Faults = []Fault{f}
	return ok
}

// call draws one instance of a Call for a fault, of those that hold.
func (d die) call(kind string, c *Case, b *bench, of func(*trace.Record) bool) (f *Fault, r *trace.Record) {
	r = d.record(b.a, func(r *trace.Record) bool { return writes(r) && inSteps(r) && of(r) })
	if r == nil {
		return nil, nil
	}
	c.Faults = []Fault{at(kind, r)}
	return &c.Faults[0], r
}

func anyCall(*trace.Record) bool { return true }

// drops draws a Call that does not run, or a rank's part of a collective that is missing.
func drops(d die, c *Case, b *bench) bool {
	f, r := d.call("drop", c, b, anyCall)
	if r == nil {
		return false
	}
	f.here("")
	if r.Kind == "collective" { // the others get what they get without it, and nothing tells whose part it is
		f.Rank = all
	}
	return true
}

// unwritten draws rows of an output that are not written.
func unwritten(d die, c *Case, b *bench) bool {
	f, r := d.call("unwritten", c, b, anyCall)
	if r == nil {
		return false
	}
	out, _, _, ok := d.element(r)
	rows := 1
	if len(out.Shape) > 0 {
		rows = out.Shape[0]
	}
	if !ok || rows == 0 {
		return false
	}
	lo := d.Intn(rows)
	f.here(" out=%s rows=%d-%d", out.Name, lo, lo+d.Intn(rows-lo))
	return true
}

// repeats draws a Call that runs more than once: a collective on all of its ranks.
func repeats(d die, c *Case, b *bench) bool {
	f, r := d.call("repeat", c, b, func(r *trace.Record) bool { return r.Kind != "p2p" })
	if r == nil {
		return false
	}
	if r.Kind == "collective" {
		f.Rank = all
		f.text(" step=%d micro=%d phase=%s n=%d", f.Step, f.Micro, f.Phase, 1+d.Intn(2))
	} else {
		f.here(" n=%d", 1+d.Intn(2))
	}
	return true
}

// again is right where a Call ran more than once: what it updates it has updated again, else it was timed on its output.
func again(c *Case, l *ledger) (answers []Answer) {
	for _, r := range l.wrote(&c.Faults[0]) {
		class := "tuner"
		for _, out := range r.Out {
			if slices.ContainsFunc(r.In, func(in trace.Sig) bool { return in.Name == out.Name }) {
				class = "state"
			}
		}
		answers = append(answers, answer("origin", class, r))
	}
	return answers
}

// stale draws a Call whose output is that of an earlier step.
func stale(d die, c *Case, b *bench) bool {
	f, r := d.call("copy", c, b, func(r *trace.Record) bool { return r.Iteration > 1 })
	if r == nil {
		return false
	}
	f.here(" from-step=%d", 1+d.Intn(f.Step-1))
	return true
}

// moves draws a random stream that is moved, or seeded again, before a phase of a microbatch.
func moves(kind string) func(d die, c *Case, b *bench) bool {
	return func(d die, c *Case, b *bench) bool {
		r := d.record(b.a, func(r *trace.Record) bool { return r.Kind == "draw" && inSteps(r) && len(streamOf(b.a, r)) > 0 })
		if r == nil {
			return false
		}
		f := at(kind, r)
		f.Name = one(d, streamOf(b.a, r))
		f.here("")
		c.Faults = []Fault{f}
		return true
	}
}

// streamOf are the names of the random streams of a record's rank.
func streamOf(t *trace.Trace, r *trace.Record) (names []string) {
	for _, s := range held(t) {
		if s.Rank == r.Rank && streams(s) {
			names = append(names, s.Name)
		}
	}
	return names
}

// moved is right where a record that run B has alone moves a stream.
func moved(scope string) func(c *Case, l *ledger) []Answer {
	return func(c *Case, l *ledger) []Answer { return answersOf("origin", "state", l.added(scope, &c.Faults[0])) }
}

// lives draws a mask that a recomputation draws from the stream as it stands.
func lives(d die, c *Case, b *bench) bool {
	r := d.record(b.a, func(r *trace.Record) bool { return r.Kind == "draw" && r.Phase == "rec" })
	if r == nil {
		return false
	}
	f := at("live", r)
	f.Micro = all
	f.text(" step=%d rank=%d", f.Step, f.Rank)
	c.Faults = []Fault{f}
	return true
}

// rebuilds draws a copy of a weight that is quantised from another source than the master.
func rebuilds(d die, c *Case, b *bench) bool {
	r := d.record(b.a, func(r *trace.Record) bool {
		named := func(sigs []trace.Sig, name, dtype string) bool {
			return slices.ContainsFunc(sigs, func(g trace.Sig) bool { return g.Name == name && (dtype == "" || g.Dtype == dtype) })
		}
		return inSteps(r) && named(r.In, "x", "fp32") && named(r.Out, "packed", "")
	})
	if r == nil {
		return false
	}
	f := at("rebuild", r)
	f.Micro, f.Phase = all, ""
	f.text(" source=%s step=%d rank=%d", one(d, []string{"bf16", "dequantised"}), f.Step, f.Rank)
	c.Faults = []Fault{f}
	return true
}
