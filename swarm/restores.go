package swarm

import (
	"fmt"
	"slices"

	"firstbit/trace"
)

// stops has run B continue from a checkpoint, and run A too, or never have stopped.
func (d die) stops(c *Case, b *bench) bool {
	c.Saved, c.Whole = 1+d.Intn(c.steps()-1), d.chance(50)
	return b.healthy(c) == nil
}

// held are the states of a run, rank by rank: of a restore, or at the beginning.
func held(t *trace.Trace) (records []*trace.Record) {
	for i := range t.Ranks {
		for j := range t.Ranks[i].Records {
			if r := &t.Ranks[i].Records[j]; r.Kind == "load" || r.Kind == "state" {
				records = append(records, r)
			}
		}
	}
	return records
}

func states(*trace.Record) bool { return true }

func streams(r *trace.Record) bool { return r.Role == "random-stream" }

// state draws one of a run's states, and a rank that has it, or all.
func (d die) state(kind string, c *Case, b *bench, of func(*trace.Record) bool) (f Fault, r *trace.Record, rank string) {
	records := slices.DeleteFunc(held(b.a), func(r *trace.Record) bool { return !of(r) })
	if len(records) == 0 {
		return f, nil, ""
	}
	roles := map[string][]*trace.Record{}
	var order []string
	for _, r := range records {
		role := string(r.Role)
		if roles[role] == nil {
			order = append(order, role)
		}
		roles[role] = append(roles[role], r)
	}
	r = one(d, roles[one(d, order)])
	f = Fault{Kind: kind, Name: r.Name, Phase: "load", Step: c.Saved, Rank: r.Rank, Micro: all}
	rank = fmt.Sprintf(" rank=%d", f.Rank)
	if d.chance(40) {
		f.Rank, rank = all, ""
	}
	return f, r, rank
}

// restores draws a state of some sort, and what befalls it in the restore.
func restores(kind string, of func(*trace.Record) bool, rest string) func(d die, c *Case, b *bench) bool {
	return func(d die, c *Case, b *bench) bool {
		if !d.stops(c, b) {
			return false
		}
		f, r, rank := d.state(kind, c, b, of)
		if r == nil {
			return false
		}
		f.text("%s%s", rank, rest)
		c.Faults = []Fault{f}
		return true
	}
}

// loadFlips draws a bit of a state, as it is restored or in memory afterwards.
func loadFlips(d die, c *Case, b *bench) bool {
	if !d.stops(c, b) {
		return false
	}
	f, r, _ := d.state("flip", c, b, states)
	if r == nil || len(r.Out) == 0 {
		return false
	}
	f.Rank = r.Rank
	_, elem, bit, ok := d.element(r)
	f.text(" phase=load rank=%d elem=%d bit=%d%s", f.Rank, elem, bit, one(d, []string{"", atRestWords}))
	c.Faults = []Fault{f}
	return ok
}

// loadFlipped is right, in memory, where the first Call reads what was not restored so. What a collective of the restore reads and gives to others
// is restored so, to a run that never stopped.
func loadFlipped(c *Case, l *ledger) []Answer {
	switch {
	case !atRestText(c.Faults[0].Text):
		return restored(c, l)
	case c.Whole:
		return append(atRest(c, l), answersOf("restore", "state", l.restored(c.Saved))...)
	}
	return atRest(c, l)
}

// sets draws an element of a state and its value.
func sets(d die, c *Case, b *bench) bool {
	if !d.stops(c, b) {
		return false
	}
	f, r, rank := d.state("set", c, b, states)
	if r == nil || len(r.Out) == 0 || r.Out[0].Numel == 0 {
		return false
	}
	f.text(" value=%d elem=%d%s", d.Intn(3), d.Intn(r.Out[0].Numel), rank)
	c.Faults = []Fault{f}
	return true
}

// copies draws a state that is restored from another rank's file.
func copies(d die, c *Case, b *bench) bool {
	if !d.stops(c, b) {
		return false
	}
	f, r, rank := d.state("copy", c, b, states)
	if r == nil {
		return false
	}
	s, err := c.spec(nil, nil)
	if err != nil {
		return false
	}
	from := fmt.Sprintf("from-rank=%d", d.Intn(s.Layout.World()))
	if c.Saved > 1 && d.chance(60) {
		from = fmt.Sprintf("from-step=%d", 1+d.Intn(c.Saved-1))
		c.Every = true
	}
	f.text(" %s%s", from, rank)
	c.Faults = []Fault{f}
	return true
}

// restored is right where a state was restored otherwise: its load record, or, where the other run never stopped, what first reads it.
func restored(c *Case, l *ledger) []Answer {
	f := &c.Faults[0]
	if c.Whole {
		return answersOf("restore", "state", l.restored(c.Saved))
	}
	var at []*trace.Record
	l.each(func(a, b *trace.Record) bool {
		if a != nil && b.Kind == "load" && f.acts(b) && !same(a.Out, b.Out) {
			at = append(at, b)
		}
		return true
	})
	return answersOf("restore", "state", at)
}

// disturbed is right where a stream was moved after its restore: the record of that, or what first reads it.
func disturbed(scope string) func(c *Case, l *ledger) []Answer {
	return func(c *Case, l *ledger) []Answer {
		f := c.Faults[0]
		if c.Whole {
			return answersOf("restore", "state", l.restored(c.Saved))
		}
		return answersOf("restore", "state", l.added(scope, &f))
	}
}

// added are the records of run B alone that a fault adds to a scope.
func (l *ledger) added(scope string, f *Fault) (at []*trace.Record) {
	mine := *f
	mine.Name = trace.Path(scope, f.Name)
	l.each(func(a, b *trace.Record) bool {
		if a == nil && mine.acts(b) {
			at = append(at, b)
		}
		return true
	})
	return at
}
