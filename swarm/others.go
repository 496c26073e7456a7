package swarm

import (
	"fmt"
	"slices"

	"firstbit/trace"
)

// alone draws a fault of memory, of which one trace shows what was written and what was read.
func alone(d die, c *Case, b *bench) bool {
	if c.Recipe == "fast" { // what arrives in another order parts replicas before the fault does
		return false
	}
	c.Alone = true
	if d.chance(40) {
		return aliases(d, c, b)
	}
	return flips(atRestWords)(d, c, b)
}

// aloneAnswers leaves out a Call that overwrote what it was reading: one trace does not tell whether that is meant, and shows who reads it next.
func aloneAnswers(c *Case, l *ledger) []Answer {
	if c.Faults[0].Kind != "alias" {
		return atRest(c, l)
	}
	readers := answersOf("memory", "memory", l.shared(&c.Faults[0], false))
	if len(readers) == 0 {
		return nil
	}
	return append(readers, aliased(c, l)...)
}

// pairs draws two faults of one bit each.
func pairs(d die, c *Case, b *bench) bool {
	for range 2 {
		f, ok := d.flip(b.a, one(d, []string{"", atRestWords}), func(r *trace.Record) bool { return r.Iteration > 0 })
		if !ok {
			return false
		}
		c.Faults = append(c.Faults, f)
	}
	return c.Faults[0].Name != c.Faults[1].Name
}

// ofTwo are the answers to each of two faults, without those to what the other came before: by the run that has one of them alone.
func (b *bench) ofTwo(c *Case, together *ledger) (answers []Answer, err error) {
	var each [2][]Answer
	for i := range c.Faults {
		one := *c
		one.Faults = c.Faults[i : i+1]
		t, _, err := b.broken(&one, one.Faults)
		if err != nil {
			return nil, err
		}
		l := newLedger(b.a, t)
		if atRestText(c.Faults[i].Text) {
			each[i] = atRest(&one, l)
		} else {
			each[i] = written("hardware")(&one, l)
		}
		if len(each[i]) == 0 {
			return nil, nil // one of them left no trace: there are no two
		}
	}
	for i, mine := range each {
		for _, a := range mine {
			if !together.after(a, each[1-i]) {
				answers = append(answers, a)
			}
		}
	}
	return answers, nil
}

// after tells whether an answer comes after another in its rank, or in a later step, or reads what the other made.
func (l *ledger) after(a Answer, others []Answer) bool {
	mine := l.find(a)
	if mine == nil || a.Verdict == "origin" && !l.readAlike(mine) {
		return true
	}
	return slices.ContainsFunc(others, func(o Answer) bool {
		other := l.find(o)
		return other != nil && (o.Step < a.Step || o.Rank == a.Rank && other.Seq < mine.Seq)
	})
}

func (l *ledger) find(a Answer) (found *trace.Record) {
	l.each(func(_, b *trace.Record) bool {
		if b.Rank == a.Rank && b.Iteration == a.Step && b.Microbatch == a.Micro && b.Phase == a.Phase && trace.Path(b.Scope, b.Name) == a.Name && b.Kind != "module" {
			found = b
		}
		return found == nil
	})
	return found
}

// earlier draws a fault in a step before those that are traced.
func earlier(d die, c *Case, b *bench) bool {
	ok := flips(one(d, []string{"", atRestWords}))(d, c, b)
	f := c.Faults[0]
	if !ok || f.Step >= c.steps() {
		return false
	}
	c.Steps = fmt.Sprintf("%d-%d", f.Step+1+d.Intn(c.steps()-f.Step), c.steps())
	return true
}

// elsewhere draws a fault on a rank that is not traced.
func elsewhere(d die, c *Case, b *bench) bool {
	ok := flips(one(d, []string{"", atRestWords}))(d, c, b)
	world := len(b.a.Ranks)
	f := c.Faults[0]
	if !ok || world < 2 {
		return false
	}
	kept := (f.Rank + 1) % world // if no other is
	c.Ranks = d.ranks(world, func(rank int) bool { return rank != f.Rank && (rank == kept || d.chance(60)) })
	return true
}

// cleans draws two runs of the same bits: the same again, of another window, resumed, under another schedule, with overlap.
func cleans(d die, c *Case, b *bench) bool {
	switch d.Intn(6) {
	case 0:
	case 1:
		c.Saved, c.Whole = 1+d.Intn(c.steps()-1), d.chance(70)
	case 2:
		c.StepsB = fmt.Sprintf("%d-%d", c.steps(), c.steps())
	case 3:
		if c.Recipe == "fast" {
			return false
		}
		c.ScheduleB = 1 + uint64(d.Intn(1000))
	case 4:
		c.Alone = true
	default:
		if c.Recipe == "fast" || slices.Contains(c.Set, overlap) {
			return false
		}
		c.SetB = []string{overlap}
	}
	return true
}
