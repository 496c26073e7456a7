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
		if spec.Layout, err = parallel.ParseLayout(layout); err != nil {
			return err
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

// same compares two runs. Where they cut what the ranks hold otherwise, what they hold is compared element by element.
func same(a, b *run.Outcome) bool {
	if len(a.Steps) != len(b.Steps) {
		return false
	}
	for i := range a.Steps {
		if a.Elements != nil {
			if a.Elements[i] != b.Elements[i] || !sameMetrics(a.Steps[i].Metrics, b.Steps[i].Metrics) {
				return false
			}
			continue
		}
		if a.Steps[i].State != b.Steps[i].State || !sameMetrics(a.Steps[i].Metrics, b.Steps[i].Metrics) {
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
