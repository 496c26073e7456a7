package inject

import (
	"errors"
	"strings"

	"firstbit/device"
	"firstbit/reduce"
	"firstbit/tune"
)

var orderKind = &kind{Name: "order", noun: "Call", phase: tune.EveryPhase, Example: "order@*.dprob tiles=arrival sched=dynamic step=3-",
	does: "sets items of the plan: reductions to an ORDER, choices to a value; in restores too",
	make: func(s *Selector) (action, []field) {
		o := &order{}
		return o, []field{{Key: tune.Key{Name: "NAME", Value: "VALUE …", Text: func() string { return strings.Join(o.words, " ") }}, must: true, others: o.take}}
	}}

// order is items of a plan, which the tuner sets.
type order struct {
	words, items []string // as given, and as a plan has them
	policies     *tune.Policy
}

// on leaves out the drawing of a weight, which has the name of the Call that computes with it, and nothing to choose.
func (o *order) on(c *device.Call) bool { return c.Kind != device.Module && c.ID.Phase != device.Init }

// take takes what parses as an ORDER for a reduction's.
func (o *order) take(key, value string) error {
	o.words = append(o.words, key+"="+value)
	is := "="
	if isOrder(value) {
		is = ":"
	}
	o.items = append(o.items, key+is+value)
	return nil
}

// isOrder tells whether a plan may have a text as an ORDER, with or without the format of the sums.
func isOrder(text string) bool {
	name, _, _ := strings.Cut(text, "/")
	_, err := reduce.ParseOrder(name)
	return err == nil
}

func (o *order) finish(f *Fault) error {
	if len(o.items) == 0 {
		return errors.New("names nothing to set")
	}
	plan, err := reduce.ParsePlan(strings.Join(o.items, "; "))
	if err != nil {
		return err
	}
	o.policies = &tune.Policy{Glob: f.Globs[0], Plan: plan, Where: f.Where, Text: f.Text}
	return nil
}

func (o *order) policy() *tune.Policy { return o.policies }
