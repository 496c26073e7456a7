package tune

import (
	"firstbit/device"
	"firstbit/reduce"
)

// Doubt is why the bits that a Call writes may be others in another run.
type Doubt uint8

// The doubts.
const (
	Arrives  Doubt = iota // an item of its plan depends on arrival
	Unpinned              // a tuner chooses, and no plan by hand goes over all that it may choose
	Late                  // its plan was taken before what is set now
	Unshared              // another rank has another plan for it
)

// Doubtful is a Call whose bits may be others in another run.
type Doubtful struct {
	Doubt
	Call *device.Call
	Rank int
	Item string  // of its plan; empty: it is no single one
	By   *Policy // that sets it; nil: the recipe does
}

// verify tells of everything that is in doubt about the plans by which a Call runs, at this step or another. base is what policies go over.
func (t *Tuner) verify(c *device.Call, base reduce.Plan) {
	policies := t.of(c)
	for _, p := range policies {
		switch {
		case p.Choose == nil || !p.fits(c):
		case !p.first():
			t.Doubts(Doubtful{Late, c, t.Rank, "", p})
			return
		case loose(c, p, policies, base):
			t.Doubts(Doubtful{Unpinned, c, t.Rank, "", p})
		}
	}
	for _, item := range c.Plan.Names() {
		if arrives, by := racing(c, policies, base, item); arrives {
			t.Doubts(Doubtful{Arrives, c, t.Rank, item, by})
		}
	}
}

// racing tells whether an item of a Call's plan depends on arrival, at this step or another, and by which policy; nil: by none.
func racing(c *device.Call, policies []*Policy, base reduce.Plan, item string) (arrives bool, by *Policy) {
	arrives = base.VariesBy(item)
	for _, p := range policies {
		if plan := p.of(c); p.fits(c) && plan.Has(item) && (p.always() || !arrives) {
			arrives, by = plan.VariesBy(item), p
		}
	}
	if !arrives && c.Plan.VariesBy(item) { // the tuner of collectives has set it
		for _, p := range policies {
			if p.Plan.Has("tuned") {
				by = p
			}
		}
		return true, by
	}
	return arrives, by
}

// OfRanks is the last policy that is for some ranks only and acts on a Call of this one; nil: none does.
func (t *Tuner) OfRanks(c *device.Call) (last *Policy) {
	for _, p := range t.of(c) {
		if p.ofRanks() && p.Now(c) && p.fits(c) {
			last = p
		}
	}
	return last
}

// loose tells whether the Call's plan is another one for another choice of a tuner's.
func loose(c *device.Call, tuner *Policy, policies []*Policy, base reduce.Plan) bool {
	first := ""
	for i, choice := range tuner.Choose.Choices(c) {
		plan, err := base.With(choice)
		for _, p := range policies {
			if err == nil && p.Choose == nil && p.always() && p.fits(c) {
				plan, err = plan.With(p.of(c))
			}
		}
		if i == 0 {
			first = plan.String()
		}
		if err == nil && plan.String() != first {
			return true
		}
	}
	return false
}
