package run

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"firstbit/device"
	"firstbit/tune"
)

// Refusal is what deterministic mode refuses of a Spec: a rule, and what of the Spec breaks it.
type Refusal struct {
	Rule     string `json:"rule"`
	Argument string `json:"argument"` // the flag that sets it
	Call     string `json:"call"`     // the first
	Kernel   string `json:"kernel"`
	Plan     string `json:"plan"`  // the item of the Call's that is refused; empty: it is no single one
	Calls    int    `json:"calls"` // how many there are, of all ranks and microbatches of a step
	Why      string `json:"why"`
	Set      string `json:"set"`

	order, rank int
}

// Error is the line of a user whose flags are refused.
func (r Refusal) Error() string {
	return fmt.Sprintf("deterministic: %s: %s (%s)%s: %s: set %s (rule %s: see train --deterministic --explain)",
		r.Argument, r.Call, r.Kernel, r.By(), r.Why, r.Set, r.Rule)
}

// By says by which item of its plan the Call runs that is refused; empty: it is no single one.
func (r Refusal) By() string {
	if r.Plan == "" {
		return ""
	}
	return " runs by " + r.Plan
}

// harmless are items of plans that may arrive: what waits for them has a place of its own for each.
var harmless = []string{"buckets", "receives"}

// refusal is what a doubt comes to; nil: it may be.
func (s *Spec) refusal(d tune.Doubtful) *Refusal {
	if d.Call.Kernel.Name == "completion" && slices.Contains(harmless, d.Item) {
		return nil
	}
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.holds(d) })
	r := &rules[i] // the last one is about whatever is left
	return &Refusal{Rule: r.ID, Argument: s.argument(d.By), Call: d.Call.ID.Path, Kernel: d.Call.Kernel.Name, Plan: itemText(d), Calls: 1, Why: r.Why, Set: r.Set, order: i, rank: d.Rank}
}

// argument is the flag that a policy comes from.
func (s *Spec) argument(p *tune.Policy) string {
	switch {
	case p == nil:
		return "--recipe " + s.Recipe
	case slices.Contains(s.Faults, p.Text):
		return fmt.Sprintf("--inject %q", p.Text)
	}
	return fmt.Sprintf("--plan %q", p.Text)
}

func itemText(d tune.Doubtful) string {
	plan := d.Call.Plan
	if d.By != nil && d.By.Plan.Has(d.Item) { // which may act at another step
		plan = d.By.Plan
	}
	for _, r := range plan.Reductions() {
		if r.Name == d.Item {
			return r.String()
		}
	}
	for _, c := range plan.Choices() {
		if c.Name == d.Item {
			return c.Name + "=" + c.Value
		}
	}
	return ""
}

// refusals are those of a run under way, of all ranks.
type refusals struct {
	mu    sync.Mutex
	found []Refusal
	plans map[string]shared // of a Call on whichever rank comes first
}

type shared struct {
	rank int
	plan string
	by   *tune.Policy
}

// add counts a refusal, and keeps the first Call of the first rank: ranks come in no order.
func (f *refusals) add(refused *Refusal) {
	if refused == nil {
		return
	}
	r := *refused
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.found {
		if f.found[i].Rule == r.Rule && f.found[i].Argument == r.Argument {
			r.Calls = f.found[i].Calls + 1
			if r.rank >= f.found[i].rank {
				r = f.found[i]
				r.Calls++
			}
			f.found[i] = r
			return
		}
	}
	f.found = append(f.found, r)
}

// share tells whether a rank has another plan for a Call than one that came before it, and by which policy one of them has it.
func (f *refusals) share(rank int, c *device.Call, by *tune.Policy) *tune.Policy {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := fmt.Sprint(c.ID.Phase, " ", c.ID.Path, " ", c.ID.Micro)
	was, seen := f.plans[key]
	if !seen {
		f.plans[key] = shared{rank, c.Plan.String(), by}
		return nil
	}
	if was.rank == rank || was.plan == c.Plan.String() {
		return nil
	}
	return cmp.Or(by, was.by)
}

// Refusals are what deterministic mode refuses of a Spec, in the order of its rules. They are found by running the first step, in which
// each Call is asked for the plans that it has at other steps, too; without policies, by a recipe that is not fast, there is nothing to find.
func (s *Spec) Refusals() ([]Refusal, error) {
	c, err := s.choices()
	if err != nil || len(c.tuner.Policies) == 0 && s.Recipe != "fast" {
		return nil, err
	}
	first := Spec{Config: s.Config, Layout: s.Layout, Schedule: s.Schedule, Recipe: s.Recipe, Library: s.Library, Plans: s.Plans, Until: 1, Interrupt: s.Interrupt}
	for _, f := range c.injector.Faults {
		if f.Policy() != nil {
			first.Faults = append(first.Faults, f.Text)
		}
	}
	found := &refusals{plans: map[string]shared{}}
	if _, err := (&job{Spec: &first, refused: found}).run(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(found.found, func(a, b Refusal) int { return cmp.Or(a.order-b.order, strings.Compare(a.Argument, b.Argument)) })
	return found.found, nil
}

// verifyDeterministic refuses what a deterministic run must not have. Like the reference's flag it verifies and never flips an option.
func (s *Spec) verifyDeterministic() error {
	found, err := s.Refusals()
	if err != nil || len(found) == 0 {
		return err
	}
	return found[0]
}

// doubts has a rank's tuner tell of what deterministic mode refuses: all of it where it is collected, else the first ends the run.
func (j *job) doubts(r *session) {
	switch {
	case j.refused != nil:
		r.tuner.Doubts = func(d tune.Doubtful) { j.refused.add(j.refusal(d)) }
	case j.Deterministic:
		r.tuner.Doubts = func(d tune.Doubtful) {
			if found := j.refusal(d); found != nil && r.refused == nil {
				r.refused = *found
			}
		}
	}
}

// sharing holds a rank's plans against those of the ranks before it.
func (j *job) sharing(r *session, rank int) device.Middleware {
	return func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			next(c)
			if by := j.refused.share(rank, c, r.tuner.OfRanks(c)); by != nil {
				j.refused.add(j.refusal(tune.Doubtful{Doubt: tune.Unshared, Call: c, Rank: rank, By: by}))
			}
		}
	}
}
