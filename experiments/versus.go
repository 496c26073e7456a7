package experiments

import (
	"fmt"
	"path/filepath"

	"firstbit/diff"
	"firstbit/run"
	"firstbit/trace"
	"firstbit/train"
)

// Versus is a healthy run against a faulty one, which is what people have, or the same fault in two runs under two schedules.
type Versus struct {
	Identical bool          `json:"identical"`
	Run       string        `json:"run"` // the faulty one of a healthy run and a faulty one: B, or A where B has the healthy bits
	FirstStep *int          `json:"first_step"`
	Metric    *string       `json:"metric"`  // the first that differs; null: the state of a step alone does
	Printed   *int          `json:"printed"` // the step at which losses of six decimals show it
	Root      *diff.Finding `json:"root"`    // at op level; null: not looked for
	Class     *string       `json:"class"`
}

// Races tells whether the pair is of two faulty runs; else run A is healthy, and all that is wrong is run B's own.
func (c *Cause) Races() bool {
	a, s := c.vary[0], c.broken
	own := len(a.plans) + len(a.faults) + len(a.set) + len(s.plans) + len(s.faults) + len(s.set)
	return !c.across && (own > 0 || a.library != "" || s.recipe != "" || a.schedule != c.vary[1].schedule)
}

// versus makes of the runs that there are both readings: a healthy run against run B, and two faulty runs.
func (h *harness) versus(r *Result, pair [2]run.Spec, out [2]*run.Outcome) (err error) {
	main := compared(out[0], out[1])
	main.Root, main.Class = r.Report.First, r.Report.Class
	if r.Report.Identical {
		main.Root = nil
	}
	if !h.cause.Races() {
		r.Healthy, main.Run = main, "B"
		r.Faulty, err = h.again(pair[1], out[1], main)
		return err
	}
	faulty := 1
	r.Faulty, r.Healthy = main, compared(h.healthy, out[1])
	if r.Healthy.Identical && h.cause.seen == 0 { // by chance run B's arrival is the healthy order: then run A's is not
		faulty, r.Healthy = 0, compared(h.healthy, out[0])
	}
	r.Healthy.Run = string(rune('A' + faulty))
	step := h.cause.seen
	if r.Healthy.FirstStep != nil {
		step = *r.Healthy.FirstStep
	}
	if step == 0 {
		return nil
	}
	report, err := diff.CompareAt(func(side int, w diff.Window) (*trace.Trace, error) {
		s := pair[faulty]
		if side == 0 {
			s = h.cause.spec(h.cause.healthy, 0)
		}
		s.Until, s.Trace = w.Step, trace.Options{Dir: filepath.Join(h.dir, "versus-"+string(rune('a'+side))), Level: w.Level, Steps: h.cause.Window(w.Step)}
		if _, err := run.Run(s); err != nil {
			return nil, err
		}
		return trace.Open(s.Trace.Dir)
	}, diff.Window{Level: trace.Op, Step: step})
	if err == nil && !report.Identical {
		r.Healthy.Root, r.Healthy.Class = report.First, report.Class
	}
	return err
}

// again runs run B under another schedule, as far as it takes to see whether the bits are the same.
func (h *harness) again(b run.Spec, was *run.Outcome, main *Versus) (*Versus, error) {
	if main.FirstStep != nil {
		b.Until = *main.FirstStep
	}
	b.Schedule.Seed += 1000
	o, err := run.Run(b)
	if err != nil {
		return nil, err
	}
	return compared(was, o), nil
}

// compared is two runs over the steps that both have.
func compared(a, b *run.Outcome) *Versus {
	v := &Versus{Identical: true}
	at := map[int]int{}
	for i := range a.Steps {
		at[a.Steps[i].Step] = i
	}
	for i := range b.Steps {
		y := &b.Steps[i]
		j, both := at[y.Step]
		if !both {
			continue
		}
		x := &a.Steps[j]
		metric := differing(x.Metrics, y.Metrics)
		if v.Identical && (metric != "" || otherState(a, b, j, i)) {
			v.Identical, v.FirstStep = false, &y.Step
			if metric != "" {
				v.Metric = &metric
			}
		}
		if v.Printed == nil && printsOther(x.Metrics, y.Metrics) {
			v.Printed = &y.Step
		}
	}
	return v
}

// otherState tells whether two steps left other bits. Where they cut what the ranks hold otherwise, what they hold is compared element by element.
func otherState(a, b *run.Outcome, i, j int) bool {
	if len(a.Elements) == len(a.Steps) && len(b.Elements) == len(b.Steps) {
		return a.Elements[i] != b.Elements[j]
	}
	return a.Steps[i].State != b.Steps[j].State
}

// differing is the first metric that differs in its bits; empty: none does.
func differing(a, b []train.Metric) string {
	for i := range min(len(a), len(b)) {
		if a[i].Bits != b[i].Bits {
			return a[i].Name
		}
	}
	return ""
}

// printed finds the step at which losses printed to six decimals part.
func printed(a, b *run.Outcome) Printed {
	return Printed{Decimals: printedDecimals, FirstStep: compared(a, b).Printed}
}

// printsOther tells whether two losses are printed differently.
func printsOther(a, b []train.Metric) bool {
	for i := range min(len(a), len(b)) {
		if a[i].Name == "loss" {
			return fmt.Sprintf("%.*f", printedDecimals, a[i].Value) != fmt.Sprintf("%.*f", printedDecimals, b[i].Value)
		}
	}
	return false
}
