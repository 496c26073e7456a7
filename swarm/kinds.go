package swarm

import (
	"fmt"
	"slices"
	"strings"

	"firstbit/reduce"
	"firstbit/trace"
)

// Answer is one right answer.
type Answer struct {
	Verdict string `json:"verdict"`
	Name    string `json:"name"`
	Rank    int    `json:"rank"`
	Step    int    `json:"step"`
	Micro   int    `json:"micro"`
	Phase   string `json:"phase"`
	Class   string `json:"class"`
}

// kind is one kind of case: what it needs, how it is drawn, and what is right to say of it.
type kind struct {
	name string
	share
	needs
	// draw makes a case of what both runs are: the fault, its Call and whatever else there is to draw. It may look at run A's trace, and says
	// whether there is such a case.
	draw func(d die, c *Case, b *bench) bool
	// answers are all that is right to say, by what the two traces hold; none: the fault cannot be seen in them.
	answers func(c *Case, l *ledger) []Answer
	// mute tells that it is as right to say what is missing, and to name nothing.
	mute bool
	// outside tells that the fault is not in what was traced, so that abstaining counts against nobody.
	outside bool
}

// share is how often a kind is drawn, of the sum of all.
type share int

// kinds are all kinds of cases. Those of one fault come first, in order of appearance of inject's.
var kinds []*kind

func init() { // the table refers to functions that look into it
	kinds = []*kind{
		{name: "flip", share: 2, draw: flips(""), answers: written("hardware")},
		{name: "rest", share: 2, draw: flips(" at=rest"), answers: atRest},
		{name: "order", share: 1, draw: orders, answers: written("tuner")},
		{name: "arrival", share: 1, needs: needs{arrives: true}, draw: arrivals, answers: arrived},
		{name: "alias", share: 1, draw: aliases, answers: aliased},
		{name: "live", share: 1, needs: needs{recomputes: true}, draw: lives, answers: written("state")},
		{name: "rebuild", share: 1, needs: needs{quantised: true}, draw: rebuilds, answers: written("hardware")},
		{name: "drop", share: 1, draw: restores("drop", states, ""), answers: restored},
		{name: "set", share: 1, draw: sets, answers: restored},
		{name: "copy", share: 1, needs: needs{ranks: true}, draw: copies, answers: restored},
		{name: "seed", share: 1, needs: needs{streams: true}, draw: restores("seed", streams, " when=after"), answers: disturbed("seed")},
		{name: "draw", share: 1, needs: needs{streams: true}, draw: restores("draw", streams, " when=after"), answers: disturbed("iterator")},
		{name: "alone", share: 1, draw: alone, answers: aloneAnswers},
		{name: "two", share: 1, draw: pairs, answers: nil},
		{name: "outside", share: 1, needs: needs{steps: 3}, draw: earlier, answers: beforeWindow, mute: true, outside: true},
		{name: "untraced", share: 1, needs: needs{ranks: true}, draw: elsewhere, answers: onlyMute, mute: true, outside: true},
		{name: "distorted", share: 2, draw: distorts, answers: throughDistortion, mute: true, outside: true},
		{name: "clean", share: 3, draw: cleans},
	}
}

// Kinds are the names of all kinds.
func Kinds() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

func kindOf(name string) *kind {
	i := slices.IndexFunc(kinds, func(k *kind) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	return kinds[i]
}

// deal is the kind of a case of a swarm: each comes as often as its share, one after another.
func deal(i int) *kind {
	total := 0
	for _, k := range kinds {
		total += int(k.share)
	}
	for i %= total; ; {
		for _, k := range kinds {
			if i -= int(k.share); i < 0 {
				return k
			}
		}
	}
}

func answer(verdict, class string, r *trace.Record) Answer {
	return Answer{verdict, trace.Path(r.Scope, r.Name), r.Rank, r.Iteration, r.Microbatch, r.Phase, class}
}

func answersOf(verdict, class string, records []*trace.Record) (answers []Answer) {
	for _, r := range records {
		answers = append(answers, answer(verdict, class, r))
	}
	return answers
}

// written is right where outputs are other than what the Call computes by what it read.
func written(class string) func(c *Case, l *ledger) []Answer {
	return func(c *Case, l *ledger) []Answer { return answersOf("origin", class, l.wrote(&c.Faults[0])) }
}

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
	f.text(" step=%d rank=%d micro=%d phase=%s out=%s elem=%d bit=%d%s", f.Step, f.Rank, f.Micro, f.Phase, f.Out, elem, bit, when)
	return f, ok
}

func atRest(c *Case, l *ledger) (answers []Answer) { return l.firstReader(&c.Faults[0]) }

func (l *ledger) firstReader(f *Fault) (answers []Answer) {
	l.each(func(_, b *trace.Record) bool {
		if f.acts(b) && !shows(b) {
			if r := l.reader(f, b); r != nil {
				answers = append(answers, answer("memory", "memory", r))
			}
		}
		return true
	})
	return answers
}

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

// aliases draws two Calls whose outputs lie in one memory: often one that runs before the other's is read, or reads it.
func aliases(d die, c *Case, b *bench) bool {
	x := d.record(b.a, func(r *trace.Record) bool { return writes(r) && inSteps(r) })
	if x == nil {
		return false
	}
	var near []*trace.Record
	from := x.Phase + " " + trace.Path(x.Scope, x.Name)
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
	return answersOf("memory", "memory", l.shared(&c.Faults[0]))
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
