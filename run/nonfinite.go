package run

import (
	"errors"
	"fmt"
	"math"

	"firstbit/device"
	"firstbit/trace"
	"firstbit/train"
)

// nonFinite is the first step after which a metric or a state is NaN or infinite, and which of them; 0: there is none. A step that fp16 skipped has
// such numbers, and leaves none in the state.
func (o *Outcome) nonFinite() (step int, what string) {
	for _, s := range o.Steps {
		if s.NonFinite != "" {
			return s.Step, s.NonFinite
		}
		if s.Skipped {
			continue
		}
		for _, m := range s.Metrics {
			if math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
				return s.Step, m.Name
			}
		}
	}
	return 0, ""
}

// reportNonFinite says where a NaN or an infinity of the run comes from, if there is one.
func (j *job) reportNonFinite(o *Outcome) error {
	step, what := o.nonFinite()
	if step == 0 {
		return nil
	}
	o.NonFinite = fmt.Sprintf("%s is NaN or infinite after step %d", what, step)
	if j.Schedule.Real {
		o.NonFinite += "; the run cannot be replayed to find the Call, because its schedule is real"
		return nil
	}
	found, err := j.findNonFinite(step, o)
	if found == "" {
		found = o.NonFinite + "; no Call wrote it"
	}
	o.NonFinite = found
	return err
}

// skipped are the steps that fp16 skipped and that left nothing infinite behind.
func (o *Outcome) skipped() map[int]bool {
	steps := map[int]bool{}
	for _, s := range o.Steps {
		if s.Skipped && s.NonFinite == "" {
			steps[s.Step] = true
		}
	}
	return steps
}

// nonFiniteCall is the first Call of a rank that wrote a NaN or an infinity.
type nonFiniteCall struct {
	step    int
	brought bool // perhaps: another rank may have sent it
	text    string
}

// findNonFinite replays the run up to a step and names the first Call that wrote a NaN or an
// infinity; empty: none, a fault wrote it to memory. Looking at every output of every run would cost a pass over memory; a replay costs
// nothing until it is needed, and is the same run.
func (j *job) findNonFinite(until int, o *Outcome) (string, error) {
	s, skipped := *j.Spec, o.skipped()
	s.Trace, s.Save, s.Export, s.Hooks, s.Until = trace.Options{}, Save{}, "", Hooks{}, until
	found := make([]nonFiniteCall, s.Layout.World())
	replay := *j
	replay.Spec, s.Watch = &s, func(rank int) device.Middleware {
		return func(next device.Runner) device.Runner {
			return func(c *device.Call) {
				next(c)
				if found[rank].text != "" || skipped[c.ID.Step] {
					return
				}
				if text := nonFiniteOut(c); text != "" {
					found[rank] = nonFiniteCall{c.ID.Step, c.Kind == device.Collective || c.Kind == device.P2P, text}
				}
			}
		}
	}
	if _, err := replay.run(); errors.As(err, new(*Interrupted)) {
		return fmt.Sprintf("%s; the search for the Call that wrote it was interrupted", o.NonFinite), nil
	} else if err != nil {
		return "", err
	}
	first := -1
	for rank, f := range found {
		if f.text != "" && (first < 0 || f.before(found[first])) {
			first = rank
		}
	}
	switch {
	case first < 0:
		return "", nil
	case len(found) == 1:
		return found[0].text, nil
	}
	return fmt.Sprintf("rank %d: %s", first, found[first].text), nil
}

// before tells whether f comes first: of one step, what another rank may have sent comes after what a rank wrote itself.
func (f nonFiniteCall) before(g nonFiniteCall) bool {
	return f.step < g.step || f.step == g.step && !f.brought && g.brought
}

// nonFiniteOut names the first output of a Call that is NaN or infinite; empty: none.
func nonFiniteOut(c *device.Call) string {
	if c.Flags&device.AsyncPending != 0 { // nothing is to be read yet
		return ""
	}
	for _, out := range c.Out {
		if i := out.NonFinite(); i >= 0 {
			return fmt.Sprintf("%v first written by %s, %s of step %d microbatch %d: %s[%d]",
				out.Value(i), c.ID.Path, c.ID.Phase, c.ID.Step, c.ID.Micro, out.Name, i)
		}
	}
	return ""
}

// addNonFinite takes over what another rank's states show.
func (o *Outcome) addNonFinite(rank int, of []train.Result) {
	for i := range of {
		if of[i].NonFinite != "" && o.Steps[i].NonFinite == "" {
			o.Steps[i].NonFinite = fmt.Sprintf("rank %d: %s", rank, of[i].NonFinite)
		}
	}
}
