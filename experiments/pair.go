package experiments

import (
	"cmp"
	"slices"

	"firstbit/diff"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/trace"
	"firstbit/train"
)

// pair runs both sides without a trace and compares metrics and state, bit for bit: of a run that continues and one that was never
// stopped the steps that both have.
func (h *harness) pair(name string, s setting, sideA bool) (bool, error) {
	h.say("%s", name)
	layout := cmp.Or(h.layout, h.cause.Layouts[0])
	from, err := h.cause.save(h.dir, layout)
	if err != nil {
		return false, err
	}
	var out [2]*run.Outcome
	var traces [2]*trace.Trace
	err = diff.Both(func(side int) (err error) {
		spec := h.cause.spec(s, side)
		if h.layout != "" {
			if spec.Layout, err = parallel.ParseLayout(h.layout); err != nil {
				return err
			}
		}
		if side == 1 || sideA {
			spec.Resume = from
		} else if from != "" {
			spec.Faults = nil
		}
		if s.traced {
			spec.Trace = trace.Options{Level: trace.Op, Into: &trace.Trace{}}
			traces[side] = spec.Trace.Into
		}
		out[side], err = run.Run(spec)
		return err
	})
	if err != nil {
		return false, err
	}
	for _, o := range out {
		o.Steps = slices.DeleteFunc(o.Steps, func(r train.Result) bool { return r.Step <= h.cause.stop })
		o.Elements = o.Elements[max(0, len(o.Elements)-len(o.Steps)):]
	}
	if h.healthy == nil { // the first pair is the healthy one
		h.healthy = out[0]
	}
	if s.traced && same(out[0], out[1]) {
		r, err := diff.Compare(traces[0], traces[1])
		return err == nil && r.Identical, err
	}
	return same(out[0], out[1]), nil
}

// same compares two runs.
func same(a, b *run.Outcome) bool {
	if len(a.Steps) != len(b.Steps) {
		return false
	}
	for i := range a.Steps {
		if otherState(a, b, i, i) || !sameMetrics(a.Steps[i].Metrics, b.Steps[i].Metrics) {
			return false
		}
	}
	return true
}

func sameMetrics(a, b []train.Metric) bool {
	for i := range a {
		if a[i].Bits != b[i].Bits {
			return false
		}
	}
	return len(a) == len(b)
}
