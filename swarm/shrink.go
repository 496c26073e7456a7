package swarm

import (
	"fmt"
	"slices"
	"strings"

	"firstbit/parallel"
)

// shrink takes away from a missed case whatever it is still missed without, in the same way.
func (o *Options) shrink(b *bench, found *drawn) {
	verdict := firstWord(found.said)
	tries := 0
	smaller := func(c Case) bool {
		if tries++; tries > o.Shrink || !runs(&c) {
			return false
		}
		t := b.try(&c, o.Localise)
		if t.err != nil || t.harmless != found.trial.harmless || t.unseen || t.right || firstWord(t.said) != verdict {
			return false
		}
		found.Case, found.trial = c, t
		return true
	}
	for again := true; again && tries <= o.Shrink; {
		again = false
		for _, c := range found.Case.smaller() {
			if smaller(c) {
				again = true
				break
			}
		}
	}
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, "/")
	return word
}

func runs(c *Case) bool {
	s, err := c.spec(c.SetB, nil)
	return err == nil && s.Check() == nil
}

// smaller are cases with one thing less, the larger things first.
func (c *Case) smaller() (cases []Case) {
	but := func(change func(*Case)) {
		x := *c
		x.Set, x.Plans, x.Faults = slices.Clone(c.Set), slices.Clone(c.Plans), slices.Clone(c.Faults)
		change(&x)
		if x.Text() != c.Text() {
			cases = append(cases, x)
		}
	}
	if l, err := parallel.ParseLayout(c.Layout); err == nil {
		for _, axis := range []*int{&l.DP, &l.PP, &l.TP, &l.CP, &l.EP, &l.ETP, &l.VPP} {
			if was := *axis; was > 1 {
				*axis = was / 2
				if l.Check() == nil {
					but(func(x *Case) { x.Layout = l.String() })
				}
				*axis = was
			}
		}
	}
	for i, s := range c.Set {
		switch path, value, _ := strings.Cut(s, "="); path {
		case "model.pattern":
			for at := range value {
				but(func(x *Case) { x.Set[i] = path + "=" + value[:at] + value[at+1:] })
			}
			continue
		case "steps":
			but(func(x *Case) { x.Set[i] = fmt.Sprintf("steps=%d", c.steps()-1) })
			continue
		}
		but(func(x *Case) { x.Set = slices.Delete(x.Set, i, i+1) })
	}
	but(func(x *Case) { x.Recipe = "" })
	but(func(x *Case) { x.Steps = "" })
	but(func(x *Case) { x.Distorted = nil })
	return cases
}
