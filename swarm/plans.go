package swarm

import (
	"firstbit/reduce"
	"firstbit/trace"
)

var someOrders = []string{"seq", "reverse", "pairwise", "blocked(2)", "lanes(2)", "lanes(4)", "splitk(2)", "perm(7)"}

// orders draws another order of one of the sums of a Call, in one step.
func orders(d die, c *Case, b *bench) bool {
	r := d.record(b.a, func(r *trace.Record) bool { return len(r.Out) > 0 && inSteps(r) && len(sums(r)) > 0 })
	if r == nil {
		return false
	}
	sum := one(d, sums(r))
	f := at("order", r)
	f.Rank, f.Micro, f.Phase = all, all, ""
	f.text(" step=%d %s=%s", f.Step, sum.Name, one(d, someOrders))
	c.Faults = []Fault{f}
	return true
}

// sums are the reductions of a record's plan.
func sums(r *trace.Record) []reduce.Reduction {
	p, err := reduce.ParsePlan(r.Plan)
	if err != nil {
		return nil
	}
	return p.Reductions()
}

// arrivals draws two schedules under which a Call, or all of the recipe fast, adds by arrival.
func arrivals(d die, c *Case, b *bench) bool {
	c.ScheduleA = 1 + uint64(d.Intn(1000))
	c.ScheduleB = c.ScheduleA + 1 + uint64(d.Intn(1000))
	if c.Recipe == "fast" {
		return true
	}
	r := d.record(b.a, func(r *trace.Record) bool { return len(r.Out) > 0 && inSteps(r) && len(sums(r)) > 0 })
	if r == nil {
		return false
	}
	c.Plans = []string{trace.Path(r.Scope, r.Name) + " " + one(d, sums(r)).Name + ":arrival"}
	return true
}

// arrived is right where a plan that depends on arrival wrote other bits.
func arrived(_ *Case, l *ledger) (answers []Answer) {
	l.each(func(a, b *trace.Record) bool {
		p, err := reduce.ParsePlan(b.Plan)
		if a == nil || err != nil || !p.Varies() || shows(b) || same(a.Out, b.Out) || !l.readAlike(b) {
			return true
		}
		answers = append(answers, answer("origin", "arrival", b))
		return false
	})
	return answers
}
