package experiments

import (
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
	s.Trace, s.Each, s.Until = trace.Options{}, nil, until
	found := ""
	s.watch = func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			next(c)
			if found != "" {
				return
			}
			for _, out := range c.Out {
				if i := nonFinite(out.Tensor); i >= 0 {
					found = fmt.Sprintf("%v first written by %s, %s of step %d microbatch %d: %s[%d]",
						out.Value(i), c.ID.Path, c.ID.Phase, c.ID.Step, c.ID.Micro, out.Name, i)
					return
				}
			}
		}
	}
	run, err := s.assemble()
	if err != nil {
		return "", err
	}
	return found, run.loop(&s)
}

func nonFinite(t *device.Tensor) int {
	for i := range t.Len() {
		if v := t.Value(i); math.IsNaN(v) || math.IsInf(v, 0) {
			return i
		}
	}
	return -1
}
