// Package tune chooses: it sets the Plan of every Call by a recipe and by hand-written
// policies, as an autotuner would by timings.
package tune

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"firstbit/device"
	"firstbit/reduce"
	"firstbit/spell"
	"firstbit/trace"
)

// Recipes are the named choices for every kernel: fixed depends on nothing but the
// call, fused is fixed with the products of matrices fused into their sums, as processors of matrices do, fast is what a user of GPUs gets, canonical
// adds in one order however the batch is cut over ranks.
var Recipes = []string{"fixed", Fused, "fast", Canonical}

// Fused is the recipe that rounds a matrix product and its sum once.
const Fused = "fused"

// Canonical is the recipe whose bits do not depend on the layout.
const Canonical = "canonical"

// ParseRecipe checks a recipe's name.
func ParseRecipe(s string) error {
	for _, r := range Recipes {
		if r == s {
			return nil
		}
	}
	return fmt.Errorf("recipe %q: %s", s, spell.OneOf(s, Recipes))
}

// Policy puts the items of a Plan over those of the Calls its GLOB names; under the GLOB * of all Calls that have one of them.
type Policy struct {
	Glob   string
	Plan   reduce.Plan
	Choose Chooser   // instead of the Plan; nil: the Plan
	Rows   trace.Set // of a Call's first input; nil: any number
	Where
	Text  string // as the user wrote it
	Hits  int    // Calls it changed
	Calls int    // Calls it named
}

// Chooser chooses for a Call, before the policies by hand do or after them.
type Chooser interface {
	// Over is the Call's plan, over the one that it has or the one that its recipe gave it; it may say that the Call is another library's.
	Over(c *device.Call, recipe reduce.Plan) (reduce.Plan, error)
	// First tells whether policies by hand go over it.
	First() bool
	// Choices are all plans that it may set the items of, for reasons that lie outside the Call; nil: the Call alone decides.
	Choices(c *device.Call) []reduce.Plan
}

func (p *Policy) over(c *device.Call, recipe reduce.Plan) (reduce.Plan, error) {
	if p.Choose != nil {
		return p.Choose.Over(c, recipe)
	}
	return c.Plan.With(p.of(c))
}

// All is the GLOB that names whatever has something of the plan to choose; under any other a Call that lacks an item is a mistake.
const All = "*"

// of is what of the policy's plan goes over a Call's.
func (p *Policy) of(c *device.Call) reduce.Plan {
	if p.Glob == All {
		return p.Plan.Among(c.Plan)
	}
	return p.Plan
}

func (p *Policy) first() bool { return p.Choose != nil && p.Choose.First() }

// ParsePolicy reads "GLOB PLAN", among whose words may be those of Where.
func ParsePolicy(s string) (*Policy, error) {
	bad := func(err error) error { return fmt.Errorf("--plan %q: %w", s, err) }
	words := strings.Fields(strings.ReplaceAll(s, ";", "; "))
	if len(words) < 2 {
		return nil, bad(errors.New("must be 'GLOB PLAN', such as '*.dprob tiles:arrival; sched=dynamic'"))
	}
	p := &Policy{Glob: words[0], Where: Everywhere(EveryPhase), Text: s}
	text, err := p.take(words[1:])
	if err != nil {
		return nil, bad(err)
	}
	if p.Plan, err = reduce.ParsePlan(text); err != nil {
		return nil, err
	}
	if p.Plan.Empty() {
		return nil, bad(errors.New("names nothing to choose"))
	}
	return p, nil
}

// take takes the words that say where, and returns the others.
func (p *Policy) take(words []string) (text string, err error) {
	keys, given := append(p.Keys(), p.rows()), map[string]bool{}
	var items []string
	for _, word := range words {
		name, value, _ := strings.Cut(strings.TrimSuffix(word, ";"), "=")
		i := slices.IndexFunc(keys, func(k Key) bool { return k.Name == name && value != "" })
		switch {
		case i < 0:
			items = append(items, word)
			continue
		case given[name]:
			return "", fmt.Errorf("%s: given twice", name)
		}
		given[name] = true
		if err := keys[i].Take(value); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
	}
	return strings.TrimSuffix(strings.Join(items, " "), ";"), nil
}

// rows is how many rows a Call's first input may have: a tuner chooses by shape. The rows of what a product reads first are tokens, forward and
// backward.
func (p *Policy) rows() Key {
	return Key{Name: "rows", Value: "SET", Take: func(value string) (err error) { p.Rows, err = trace.ParseSet(value); return err }}
}

// fits tells whether a Call has so many rows.
func (p *Policy) fits(c *device.Call) bool {
	return p.Rows == nil || len(c.In) > 0 && p.Rows.Has(c.In[0].Rows())
}

// Tuner is the middleware.
type Tuner struct {
	Rank     int
	Recipe   string
	Library  string // release of the kernel library; empty: the first
	Policies []*Policy
	Seq      int            // tokens of a sequence, which the canonical recipe adds before others join
	Doubts   func(Doubtful) // is told whatever a deterministic run must not have; nil: it may be anything

	named map[*device.Call]*named
	plans map[sharded]reduce.Plan        // of the canonical recipe
	pins  map[[2]reduce.Plan]reduce.Plan // of plans by hand over the canonical recipe's
	ships map[string]reduce.Plan         // of the library; nil: every kernel as its recipe has it
	err   error
}

// Middleware sets the Plan in place before the Call goes on.
func (t *Tuner) Middleware(next device.Runner) device.Runner {
	t.named, t.plans, t.ships = map[*device.Call]*named{}, map[sharded]reduce.Plan{}, library(t.Library)
	t.pins = map[[2]reduce.Plan]reduce.Plan{}
	return func(c *device.Call) {
		switch {
		case t.Recipe == "fast" && !c.Kernel.Fast.Empty():
			c.Plan = c.Kernel.Fast
		case t.Recipe == Fused:
			c.Plan = t.fused(c.Kernel)
		case t.Recipe == Canonical:
			c.Plan = t.canonical(c.Kernel, c.Shards)
		}
		recipe := c.Plan
		if t.ships != nil && t.Recipe != Canonical { // which pins every kernel's order
			t.misfit(c, Ship(c, t.ships[c.Kernel.Name]))
		}
		base := c.Plan
		// A weight is drawn under the name of the Call that computes with it, and has nothing to choose.
		if len(t.Policies) > 0 && c.ID.Phase != device.Init {
			t.apply(c, recipe)
		}
		t.misfit(c, tuned(c))
		if t.Doubts != nil && c.ID.Phase != device.Init {
			t.verify(c, base)
		}
		next(c)
	}
}

func (t *Tuner) apply(c *device.Call, recipe reduce.Plan) {
	n := t.named[c]
	if n == nil { // Calls are used again: match each once, and see what does not fit at the first step, whichever the policy's is
		n = &named{policies: t.naming(c)}
		n.made = make([]made, len(n.policies))
		t.named[c] = n
	}
	for i, p := range n.policies {
		if !p.Now(c) {
			continue
		}
		if p.Calls++; !p.fits(c) {
			continue
		}
		plan, err := n.made[i].over(p, c, recipe)
		if err != nil {
			t.misfit(c, err)
			continue
		}
		if t.Recipe == Canonical {
			plan = t.pinned(plan, recipe)
		}
		if !plan.Equal(c.Plan) {
			c.Plan = plan
			p.Hits++
		}
	}
}

// named are the policies that name a Call, and what each made last.
type named struct {
	policies []*Policy
	made     []made
}

// of are the policies that name a Call that has run.
func (t *Tuner) of(c *device.Call) []*Policy {
	if n := t.named[c]; n != nil {
		return n.policies
	}
	return nil
}

// made is the plan that a policy without a Chooser made last, and of which: the same again makes no new one.
type made struct{ from, to reduce.Plan }

func (m *made) over(p *Policy, c *device.Call, recipe reduce.Plan) (reduce.Plan, error) {
	if p.Choose != nil { // by what it likes
		return p.over(c, recipe)
	}
	if m.from != c.Plan || m.to.Empty() {
		to, err := p.over(c, recipe)
		if err != nil {
			return to, err
		}
		m.from, m.to = c.Plan, to
	}
	return m.to, nil
}

// naming are the policies that name a Call, those that go first before the others.
func (t *Tuner) naming(c *device.Call) (named []*Policy) {
	for _, first := range []bool{true, false} {
		for _, p := range t.Policies {
			if p.first() != first || !p.InPhase(c.ID.Phase) || !p.OnRank(t.Rank, c.ID.At) || !c.Matches(p.Glob) {
				continue
			}
			if p.Choose == nil {
				if p.of(c).Empty() {
					continue
				}
				_, err := p.over(c, c.Plan)
				t.misfit(c, err)
			}
			named = append(named, p)
		}
	}
	return named
}

func (t *Tuner) misfit(c *device.Call, err error) {
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("plan for %s (%s): %w", c.ID.Path, c.Kernel.Name, err)
	}
}

// Err is the first plan that did not fit a kernel it named.
func (t *Tuner) Err() error { return t.err }
