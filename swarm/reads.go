package swarm

import (
	"fmt"
	"slices"
	"strings"

	"firstbit/trace"
)

func atRest(c *Case, l *ledger) (answers []Answer) { return l.firstReader(&c.Faults[0]) }

func (l *ledger) firstReader(f *Fault) (answers []Answer) {
	l.each(func(_, b *trace.Record) bool {
		if f.acts(b) && !shows(b) && len(b.Out) > 0 { // of what only starts, nothing is to be read yet
			if r := l.reader(f, b); r != nil {
				answers = append(answers, answer("memory", "memory", r))
			}
		}
		return true
	})
	return answers
}

// reads draws a Call that reads before, or after, it may.
func reads(kind string) func(d die, c *Case, b *bench) bool {
	return func(d die, c *Case, b *bench) bool {
		f, r := d.call(kind, c, b, func(r *trace.Record) bool {
			return len(r.In) > 0 && !r.In[0].Scalar && (kind == "early" || r.Kind != "collective" && r.Kind != "p2p" && overtaken(b.a, r))
		})
		if r == nil {
			return false
		}
		f.here("")
		return true
	}
}

// overtaken tells whether what a record reads is written again before what it writes is read.
func overtaken(t *trace.Trace, r *trace.Record) bool {
	mine, wrote := producer(r), map[string]bool{}
	for _, in := range r.In {
		if in.From != nil {
			from, _, _ := strings.Cut(*in.From, "#")
			wrote[from] = from != mine
		}
	}
	for i := range t.Ranks {
		if t.Ranks[i].Rank != r.Rank {
			continue
		}
		records := t.Ranks[i].Records
		at, _ := slices.BinarySearchFunc(records, r.Seq, func(x trace.Record, seq int) int { return x.Seq - seq })
		for _, x := range records[at+1:] {
			if x.Iteration > r.Iteration || x.Kind == "metric" {
				return false
			}
			if x.Kind == "module" {
				continue
			}
			if wrote[producer(&x)] {
				return true
			}
			if producer(&x) == mine || slices.ContainsFunc(x.In, func(g trace.Sig) bool {
				return g.From != nil && (*g.From == mine || strings.HasPrefix(*g.From, mine+"#"))
			}) {
				return false
			}
		}
	}
	return false
}

// producer is a record as those that read what it wrote name it, but for its output.
func producer(r *trace.Record) string { return r.Phase + " " + trace.Path(r.Scope, r.Name) }

// read is right where a Call read other bits than were written.
func read(c *Case, l *ledger) (answers []Answer) {
	l.each(func(a, b *trace.Record) bool {
		if a != nil && c.Faults[0].acts(b) && !shows(b) && !same(a.In, b.In) {
			answers = append(answers, answer("memory", "memory", b))
		}
		return true
	})
	return answers
}

// aliases draws two Calls whose outputs lie in one memory: often one that runs before the other's is read, or reads it.
func aliases(d die, c *Case, b *bench) bool {
	x := d.record(b.a, func(r *trace.Record) bool { return writes(r) && inSteps(r) })
	if x == nil {
		return false
	}
	var near []*trace.Record
	from := producer(x)
	for i := range b.a.Ranks {
		if b.a.Ranks[i].Rank != x.Rank {
			continue
		}
		for j := range b.a.Ranks[i].Records {
			r := &b.a.Ranks[i].Records[j]
			if r.Seq > x.Seq && r.Iteration == x.Iteration && writes(r) && !shows(r) && r.Out[0].Dtype == x.Out[0].Dtype {
				near = append(near, r)
			}
			read := slices.ContainsFunc(r.In, func(g trace.Sig) bool {
				return g.From != nil && (*g.From == from || strings.HasPrefix(*g.From, from+"#"))
			})
			if r.Seq > x.Seq && read && !d.chance(30) {
				break
			}
		}
	}
	if len(near) == 0 {
		return false
	}
	y := one(d, near)
	f := at("alias", x)
	f.With, f.Micro, f.Phase = trace.Path(y.Scope, y.Name), all, ""
	if f.With == f.Name {
		return false
	}
	rank := fmt.Sprintf(" rank=%d", f.Rank)
	if d.chance(30) {
		f.Rank, rank = all, ""
	}
	f.text(" with=%s step=%d%s", f.With, f.Step, rank)
	c.Faults = []Fault{f}
	return true
}

func aliased(c *Case, l *ledger) []Answer {
	return answersOf("memory", "memory", l.shared(&c.Faults[0], true))
}
