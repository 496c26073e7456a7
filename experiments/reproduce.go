package experiments

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/tidwall/match"

	"firstbit/diff"
	"firstbit/run"
	"firstbit/trace"
	"firstbit/train"
)

// Pair says whether two runs were one.
type Pair struct {
	Name      string `json:"name,omitempty"`
	Identical bool   `json:"identical"`

	want bool // whether they must be
}

// Printed is where a difference shows in losses printed to so many decimals.
type Printed struct {
	Decimals  int  `json:"decimals"`
	FirstStep *int `json:"first_step"` // null: never
}

// FaultResult is what the localiser made of the broken pair.
type FaultResult struct {
	Identical bool          `json:"identical"`
	FirstStep *int          `json:"first_step"`
	Root      *diff.Finding `json:"root"`
	Class     *string       `json:"class"`
	Expected  string        `json:"expected"`
	Found     *string       `json:"found"`
	Bytes     *diff.Bytes   `json:"bytes"`
}

// Result is the verdict on one cause.
type Result struct {
	Cause     string           `json:"cause"`
	Layout    string           `json:"layout"`
	Precision string           `json:"precision"`
	OK        bool             `json:"ok"`
	Hidden    bool             `json:"hidden"` // the precision, which is not the cause's own, rounds away all that it changes in these steps
	Baseline  Pair             `json:"baseline"`
	Fault     FaultResult      `json:"fault"`
	Healthy   *Versus          `json:"healthy"` // a healthy run against run B
	Faulty    *Versus          `json:"faulty"`  // two faulty runs
	Routes    *run.RouteReport `json:"routes"`
	Printed   Printed          `json:"printed"`
	Cure      Pair             `json:"cure"`
	Controls  []Pair           `json:"controls"`
	Why       []string         `json:"why"` // what was not as it must be

	Config train.Config `json:"-"`
	Report *diff.Report `json:"-"` // the localisation, level by level
	Spread []Spread     `json:"-"` // how the difference went on at the first step
	Losses [2][]float64 `json:"-"`
	idle   bool         // a fault of the source never acted
}

// Spread is a Call that differed after the root did.
type Spread struct{ Phase, Path, Kind string }

const printedDecimals = 6

// Reproduce tells a cause's whole story: same bits without it, different with it, found from the
// traces alone, cured, same bits again. progress hears what is under way.
func (c *Cause) Reproduce(progress func(string)) (*Result, error) {
	dir, err := os.MkdirTemp("", "firstbit-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r := &Result{Cause: c.ID, Layout: c.Layouts[0], Config: c.config(), Controls: []Pair{}, Why: []string{}}
	r.Precision = r.Config.Precision
	h := harness{cause: c, dir: dir, progress: progress}

	if r.Baseline.Identical, err = h.pair("without the cause", c.healthy, false); err != nil {
		return nil, err
	}
	if err := h.fault(r); err != nil {
		return nil, err
	}
	if r.Cure.Identical, err = h.pair("with the cure", c.cured, false); err != nil {
		return nil, err
	}
	for _, half := range c.halves {
		same, err := h.pair(half.name, half.setting, false)
		if err != nil {
			return nil, err
		}
		r.Controls = append(r.Controls, Pair{Name: half.name, Identical: same})
	}
	for _, half := range c.harmless {
		same, err := h.pair(half.name, half.setting, true)
		if err != nil {
			return nil, err
		}
		r.Controls = append(r.Controls, Pair{Name: half.name, Identical: same, want: true})
	}
	for _, layout := range c.quiet {
		h.layout = layout
		same, err := h.pair("at "+layout, c.broken, true)
		if err != nil {
			return nil, err
		}
		r.Controls = append(r.Controls, Pair{Name: "the same at " + layout, Identical: same, want: true})
	}
	r.judge(c)
	return r, nil
}

// Stages is how many pairs and levels Reproduce reports as it goes.
func (c *Cause) Stages() int {
	levels := int(trace.Kernel)
	if c.across {
		levels = 2
	}
	return 1 + levels + 1 + len(c.halves) + len(c.harmless) + len(c.quiet)
}

// judge says what is not as it must be.
func (r *Result) judge(c *Cause) {
	require := func(ok bool, format string, a ...any) {
		if !ok {
			r.Why = append(r.Why, fmt.Sprintf(format, a...))
		}
	}
	require(!r.idle, "a fault of the source never acts")
	if r.Hidden = c.elsewhere && r.Fault.Identical && r.Baseline.Identical && r.Cure.Identical && !r.idle; r.Hidden {
		r.OK = true
		return
	}
	require(r.Baseline.Identical, "the pair without the cause differs")
	require(!r.Fault.Identical, "the pair with the cause does not differ")
	require(r.Cure.Identical, "the cured pair differs")
	for _, p := range r.Controls {
		require(p.want || !p.Identical || c.elsewhere, "%s alone already cures it", p.Name)
		require(!p.want || p.Identical, "%s: the pair differs", p.Name)
	}
	if root := r.Fault.Root; root != nil {
		require(match.Match(root.Path(), c.Root) || c.elsewhere && c.explains(root.Path()), "the localiser names %s, not %s", root.Path(), c.Root)
		verdict := cmp.Or(c.verdict, "origin")
		require(root.Verdict == verdict, "the verdict is %s, not %s", root.Verdict, verdict)
		require(text(r.Fault.Class) == c.Class, "the class is not %s", c.Class)
		// Of a Call that one run has alone there is nothing to compare.
		alone := c.Class == "control" || c.across || r.Report != nil && (r.Report.A == nil || r.Report.B == nil)
		require(r.Report != nil && (r.Report.Confirmed || alone || verdict != "origin"), "no bytes confirm the verdict") // those of memory are the reader's
	}
	if r.Report != nil {
		for _, root := range r.Report.Roots {
			require(root.Path() == r.Report.First.Path() || c.explains(root.Path()), "%s is a root of its own, and not the cause's", root.Path())
		}
	}
	require(!c.sameXOR || r.sameXOR(), "no output of the root has the same XOR in both runs, and rows that tell them apart")
	require(!c.later || r.later(), "no Call that differs comes before the root by its name")
	if c.shallow != "" && r.Report != nil {
		require(slices.ContainsFunc(r.Report.Levels, func(l diff.LevelStep) bool {
			return l.Level == trace.Op.String() && l.First != nil && l.First.Verdict == c.shallow
		}), "the verdict at op level is not %s", c.shallow)
	}
	if first, printed := r.Fault.FirstStep, r.Printed.FirstStep; first != nil && printed != nil {
		require(*printed-*first >= c.unprinted, "print shows it %d steps after the first bit, not %d", *printed-*first, c.unprinted)
	}
	require(!c.flips || r.Routes != nil && r.Routes.Flips > 0, "no route flips")
	r.OK = len(r.Why) == 0
}

// text is what a pointer points to; nil: nothing.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// explains tells whether a Call is one that the cause makes a root of.
func (c *Cause) explains(path string) bool {
	return match.Match(path, c.Root) || slices.ContainsFunc(c.also, func(glob string) bool { return match.Match(path, glob) })
}

type harness struct {
	cause    *Cause
	dir      string
	layout   string // instead of the cause's; empty: that
	healthy  *run.Outcome
	progress func(string)
}

func (h *harness) say(format string, a ...any) {
	if h.progress != nil {
		h.progress(fmt.Sprintf(format, a...))
	}
}

// fault runs the broken pair, localises it and compares what it did.
func (h *harness) fault(r *Result) error {
	runs, err := h.cause.Runs(h.dir)
	if err != nil {
		return err
	}
	report, err := h.cause.Localize(runs.Trace, func(l trace.Level) { h.say("with the cause, localising: %s", l) })
	if err != nil {
		return err
	}
	pair, out := runs.Pair, runs.out
	r.Report = report
	r.Fault.Identical, r.Fault.Expected = report.Identical, h.cause.Root
	if !h.cause.across { // whose tokens lie on other ranks
		r.Routes = run.CompareRoutes(out[0].Routes, out[1].Routes)
	}
	for _, f := range slices.Concat(out[0].Faults, out[1].Faults) {
		r.idle = r.idle || f.Acted == 0 && !strings.HasPrefix(f.Spec, "probe@") // what a tracer does is done where there is one
	}
	r.Printed = printed(out[0], out[1])
	if (h.cause.silent || h.cause.unmoved) && !same(out[0], out[1]) {
		r.Why = append(r.Why, "a metric or the state of a step shows it")
	}
	if err := h.versus(r, pair, out); err != nil {
		return err
	}
	for side := range out {
		r.Losses[side] = make([]float64, h.cause.stop) // those of the steps before were another run's
		for _, s := range out[side].Steps {
			r.Losses[side] = append(r.Losses[side], s.Metrics[0].Value)
		}
	}
	if report.Identical {
		return nil
	}
	step, found := report.First.Iteration, report.First.Path()
	if first := report.Levels[0].First; first != nil { // a restore comes before the first step that shows it
		step = first.Iteration
	}
	r.Fault.FirstStep, r.Fault.Root, r.Fault.Class = &step, report.First, report.Class
	r.Fault.Found, r.Fault.Bytes = &found, report.Bytes
	r.Spread = spread(report)
	return nil
}

// spread lists the Calls that differed after the root: the next few, then the first weight.
func spread(report *diff.Report) []Spread {
	var s []Spread
	for _, d := range report.Differing {
		entry := Spread{d.Phase, trace.Path(d.Scope, d.Name), d.Kind}
		switch {
		case d.Kind == "op" && len(s) < 6:
			s = append(s, entry)
		case d.Kind == "optim":
			return append(s, entry)
		}
	}
	return s
}
