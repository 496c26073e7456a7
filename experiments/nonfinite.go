package experiments

import (
	"errors"
	"fmt"
	"math"

	"firstbit/device"
	"firstbit/trace"
)

// firstNonFinite is the first step with a metric that is NaN or infinite, or 0.
func (o *Outcome) firstNonFinite() int {
	for _, s := range o.Steps {
		for _, m := range s.Metrics {
			if math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
				return s.Step
			}
		}
	}
	return 0
}

// findNonFinite replays the run up to a step and names the first Call that wrote a NaN or an
// infinity. Looking at every output of every run would cost a pass over memory; a replay costs
// nothing until it is needed, and is the same run.
func (s Spec) findNonFinite(until int) (string, error) {
	s.Trace, s.Save, s.Export, s.Begin, s.Each, s.EachRank, s.Until = trace.Options{}, Save{}, "", nil, nil, nil, until
	found := make([]string, s.Layout.World())
	s.watch = func(rank int) device.Middleware {
		return func(next device.Runner) device.Runner {
			return func(c *device.Call) {
				next(c)
				if found[rank] == "" {
					found[rank] = nonFiniteOut(c)
				}
			}
		}
	}
	if _, err := s.run(); errors.As(err, new(*Interrupted)) {
		return "a metric is NaN or infinite; the search for the Call that wrote it was interrupted", nil
	} else if err != nil {
		return "", err
	}
	for rank, f := range found {
		if f != "" && len(found) > 1 {
			return fmt.Sprintf("rank %d: %s", rank, f), nil
		}
		if f != "" {
			return f, nil
		}
	}
	return "", nil
}

// nonFiniteOut names the first output of a Call that is NaN or infinite; empty: none.
func nonFiniteOut(c *device.Call) string {
	for _, out := range c.Out {
		if i := nonFinite(out.Tensor); i >= 0 {
			return fmt.Sprintf("%v first written by %s, %s of step %d microbatch %d: %s[%d]",
				out.Value(i), c.ID.Path, c.ID.Phase, c.ID.Step, c.ID.Micro, out.Name, i)
		}
	}
	return ""
}

func nonFinite(t *device.Tensor) int {
	for i := range t.Len() {
		if v := t.Value(i); math.IsNaN(v) || math.IsInf(v, 0) {
			return i
		}
	}
	return -1
}
