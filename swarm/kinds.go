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
		{name: "flip", share: 1, draw: flips(""), answers: written("hardware")},
		{name: "rest", share: 1, draw: flips(" at=rest"), answers: atRest},
		{name: "set", share: 1, draw: values, answers: written("hardware")},
		{name: "drop", share: 1, draw: drops, answers: written("hardware")},
		{name: "unwritten", share: 1, draw: unwritten, answers: written("hardware")},
		{name: "repeat", share: 1, draw: repeats, answers: written("hardware")},
		{name: "stale", share: 1, draw: stale, answers: written("hardware")},
		{name: "early", share: 1, draw: reads("early"), answers: read},
		{name: "late", share: 1, draw: reads("late"), answers: read},
		{name: "order", share: 1, draw: orders, answers: written("tuner")},
		{name: "arrival", share: 1, draw: arrivals, answers: arrived},
		{name: "alias", share: 1, draw: aliases, answers: aliased},
		{name: "live", share: 1, needs: needs{recomputes: true}, draw: lives, answers: written("state")},
		{name: "rebuild", share: 1, needs: needs{quantised: true}, draw: rebuilds, answers: written("hardware")},
		{name: "draw", share: 1, needs: needs{streams: true}, draw: moves("draw"), answers: moved("iterator")},
		{name: "seed", share: 1, needs: needs{streams: true}, draw: moves("seed"), answers: moved("seed")},
		{name: "load.drop", share: 1, draw: restores("drop", states, ""), answers: restored},
		{name: "load.set", share: 1, draw: sets, answers: restored},
		{name: "load.copy", share: 1, needs: needs{steps: 3}, draw: copies, answers: restored},
		{name: "load.draw", share: 1, needs: needs{streams: true}, draw: restores("draw", streams, " when=after"), answers: disturbed("iterator")},
		{name: "load.seed", share: 1, needs: needs{streams: true}, draw: restores("seed", streams, " when=after"), answers: disturbed("seed")},
		{name: "alone", share: 1, draw: alone, answers: aloneAnswers},
		{name: "two", share: 1, draw: pairs, answers: nil},
		{name: "outside", share: 1, needs: needs{steps: 3}, draw: earlier, mute: true, outside: true},
		{name: "untraced", share: 1, needs: needs{ranks: true}, draw: elsewhere, mute: true, outside: true},
		{name: "distorted", share: 3, draw: distorts, answers: throughDistortion, mute: true, outside: true},
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

// stale draws a Call whose output is that of an earlier step.
func stale(d die, c *Case, b *bench) bool {
	f, r := d.call("copy", c, b, func(r *trace.Record) bool { return r.Iteration > 1 })
	if r == nil {
		return false
	}
	f.here(" from-step=%d", 1+d.Intn(f.Step-1))
	return true
}

// reads draws a Call that reads before, or after, it may.
func reads(kind string) func(d die, c *Case, b *bench) bool {
	return func(d die, c *Case, b *bench) bool {
		f, r := d.call(kind, c, b, func(r *trace.Record) bool {
			return len(r.In) > 0 && !r.In[0].Scalar && (kind == "early" || r.Kind != "collective" && r.Kind != "p2p")
		})
		if r == nil {
			return false
		}
		f.here("")
		return true
	}
}

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
	return answersOf("memory", "memory", l.shared(&c.Faults[0], true))
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
