// Package tune chooses: it sets the Plan of every Call by a recipe and by hand-written
// policies, as an autotuner would by timings.
package tune

import (
	"fmt"
	"strings"

	"firstbit/device"
	"firstbit/reduce"
	"firstbit/spell"
	"firstbit/trace"
)

// Recipes are the named choices for every kernel: fixed depends on nothing but the
// call, fast is what a user of GPUs gets, canonical adds in one order however the batch is cut over ranks.
var Recipes = []string{"fixed", "fast", Canonical}

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

// Policy puts the items of a Plan over those of the Calls its GLOB names.
type Policy struct {
	Glob  string
	Plan  reduce.Plan
	Steps trace.Set
	Text  string // as the user wrote it
	Hits  int    // Calls it changed
	Calls int    // Calls it named
}

// ParsePolicy reads "GLOB PLAN".
func ParsePolicy(s string) (*Policy, error) {
	glob, text, ok := strings.Cut(strings.TrimSpace(s), " ")
	if !ok {
		return nil, fmt.Errorf("--plan %q: must be 'GLOB PLAN', such as '*.dprob tiles:arrival; sched=dynamic'", s)
	}
	p, err := reduce.ParsePlan(text)
	if err != nil {
		return nil, err
	}
	if p.Empty() {
		return nil, fmt.Errorf("--plan %q: names nothing to choose", s)
	}
	return &Policy{Glob: glob, Plan: p, Text: s}, nil
}

// Tuner is the middleware.
type Tuner struct {
	Recipe   string
	Policies []*Policy
	Seq      int // tokens of a sequence, which the canonical recipe adds before others join

	named map[*device.Call][]*Policy
	plans map[sharded]reduce.Plan // of the canonical recipe
	err   error
}

// Middleware sets the Plan in place before the Call goes on.
func (t *Tuner) Middleware(next device.Runner) device.Runner {
	t.named, t.plans = map[*device.Call][]*Policy{}, map[sharded]reduce.Plan{}
	return func(c *device.Call) {
		switch {
		case t.Recipe == "fast" && !c.Kernel.Fast.Empty():
			c.Plan = c.Kernel.Fast
		case t.Recipe == Canonical:
			c.Plan = t.canonical(c.Kernel, c.Shards)
		}
		// A weight is drawn under the name of the Call that computes with it, and has nothing to choose.
		if len(t.Policies) > 0 && c.ID.Phase != device.Init {
			t.apply(c)
		}
		t.misfit(c, tuned(c))
		next(c)
	}
}

func (t *Tuner) apply(c *device.Call) {
	named, seen := t.named[c]
	if !seen { // Calls are used again: match each once, and see what does not fit at the first step, whichever the policy's is
		for _, p := range t.Policies {
			if c.Matches(p.Glob) {
				named = append(named, p)
				_, err := c.Plan.With(p.Plan)
				t.misfit(c, err)
			}
		}
		t.named[c] = named
	}
	for _, p := range named {
		if !p.Steps.Has(c.ID.Step) {
			continue
		}
		p.Calls++
		plan, err := c.Plan.With(p.Plan)
		if err != nil {
			t.misfit(c, err)
			continue
		}
		if !plan.Equal(c.Plan) {
			c.Plan = plan
			p.Hits++
		}
	}
}

func (t *Tuner) misfit(c *device.Call, err error) {
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("plan for %s (%s): %w", c.ID.Path, c.Kernel.Name, err)
	}
}

// Err is the first plan that did not fit a kernel it named.
func (t *Tuner) Err() error { return t.err }
