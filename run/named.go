package run

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"firstbit/device"
	"firstbit/inject"
	"firstbit/lowp"
	"firstbit/spell"
	"firstbit/trace"
)

// checkNamed refuses what a fault names and no run of the Spec has, before anything runs. Names of Calls are known after it: see missed.
func (s *Spec) checkNamed(c choices) error {
	run := inject.Run{Layout: s.Layout.String(), Ranks: s.Layout.World(), Micro: s.Config.Micro, Precision: s.Config.Precision, Widest: lowp.FP32,
		Resumes: s.Resume != "", Loads: s.Config.Weights != ""}
	if run.Precision == lowp.FP64.String() {
		run.Widest = lowp.FP64
	}
	for _, f := range c.injector.Faults {
		if err := f.Check(run); err != nil {
			return err
		}
	}
	return s.checkSteps(0)
}

// checkSteps refuses steps that do not come after the one with which the run begins: 0, or a checkpoint's.
func (s *Spec) checkSteps(begin int) error {
	c, err := s.choices()
	if err != nil {
		return err
	}
	for _, f := range c.injector.Faults {
		if err := f.CheckSteps(begin, s.Config.Steps); err != nil {
			return err
		}
	}
	if !s.Trace.Steps.Within(begin, s.Config.Steps) {
		return fmt.Errorf("--trace-steps %q: must be from %d to %d, the steps of the run and the one before", s.Trace.Steps, begin, s.Config.Steps)
	}
	return nil
}

// faulted is what the faults came to on all ranks together.
func faulted(ranks []*session) []trace.Fault {
	faults := []trace.Fault{}
	for i, f := range ranks[0].injector.Faults {
		report := trace.Fault{Spec: f.Text}
		for _, r := range ranks {
			acted, changed := r.injector.Faults[i].Counts()
			report.Acted, report.Changed = report.Acted+acted, report.Changed+changed
		}
		faults = append(faults, report)
	}
	return faults
}

// missed says of the first fault, plan or dump that named nothing in a run that has ended what there is instead.
func (s *Spec) missed(ranks []*session) error {
	first := ranks[0]
	for i, report := range faulted(ranks) {
		f := first.injector.Faults[i]
		if report.Acted > 0 && len(f.Globs) == 1 { // one of two may be enough to act
			continue
		}
		if why := (sought{ranks, f}).why(); report.Acted == 0 || why != elsewhere {
			return fmt.Errorf("--inject %q: %s", f.Text, why)
		}
	}
	for i, text := range s.Plans { // by hand: they come before those of faults
		calls := 0
		for _, r := range ranks {
			calls += r.tuner.Policies[i].Calls
		}
		if p := first.tuner.Policies[i]; calls == 0 {
			return fmt.Errorf("--plan %q: %s", text, unnamed(ranks, "Call", p.Glob, func(c *device.Call) bool { return c.ID.Phase != device.Init }))
		}
	}
	if t := first.tracer; t != nil && t.Dump != "" && !t.Dumped() {
		return fmt.Errorf("--dump %q: %s", t.Dump, undumped(ranks, t))
	}
	return nil
}

// sought is a fault that did not act, and where it looked.
type sought struct {
	ranks []*session
	*inject.Fault
}

// why is the first of name, phase and rank that no Call had.
func (s sought) why() string {
	for _, glob := range s.Globs {
		phases, on := map[string]bool{}, map[int]bool{}
		for rank, r := range s.ranks {
			for _, c := range r.device.Calls() {
				if !s.On(c) || !c.Matches(glob) {
					continue
				}
				if phases[c.ID.Phase.String()] = true; c.ID.Phase == s.Phase || s.EveryPhase() {
					on[rank] = true
				}
			}
		}
		switch {
		case len(phases) == 0:
			return unnamed(s.ranks, s.Noun(), glob, s.On)
		case len(on) == 0:
			return fmt.Sprintf("no %s of that name in phase %s: must be phase=%s", s.Noun(), s.Phase, few(phases))
		case s.Rank >= 0 && !on[s.Rank]:
			return fmt.Sprintf("no %s of that name on rank %d: must be rank=%s", s.Noun(), s.Rank, few(on))
		}
	}
	return elsewhere
}

// elsewhere says that a name occurs, and where it is looked for.
const elsewhere = "what it names is not in its steps, microbatch and ranks"

const mostNamed = 3

// few names some of many.
func few[T cmp.Ordered](of map[T]bool) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		names = append(names, fmt.Sprint(name))
	}
	return strings.Join(names[:min(len(names), mostNamed)], " or ")
}

// unnamed says that a GLOB names none of some Calls, and which are nearest.
func unnamed(ranks []*session, noun, glob string, of func(*device.Call) bool) string {
	seen := map[string]bool{}
	for _, r := range ranks {
		for _, c := range r.device.Calls() {
			if !of(c) {
				continue
			}
			seen[c.ID.Path] = true
			for _, p := range c.Kernel.Parts {
				seen[trace.Path(c.Scope, p.Name)] = true
			}
		}
	}
	near := spell.Nearest(glob, slices.Sorted(maps.Keys(seen)), mostNamed)
	if len(near) == 0 {
		return fmt.Sprintf("no %s of that name", noun)
	}
	return fmt.Sprintf("no %s of that name: nearest %s", noun, strings.Join(near, ", "))
}

// undumped says why no Call's bytes were kept.
func undumped(ranks []*session, t *trace.Tracer) string {
	need := trace.Off // the least level that shows one
	for _, r := range ranks {
		for _, c := range r.device.Calls() {
			if l := trace.LevelOf(c.Kind.String()); c.Matches(t.Dump) && (need == trace.Off || l < need) {
				need = l
			}
		}
	}
	switch {
	case need == trace.Off:
		return unnamed(ranks, "Call", t.Dump, func(*device.Call) bool { return true })
	case need > t.Level:
		return fmt.Sprintf("what it names is traced from level %s on, not at %s", need, t.Level)
	}
	return "what it names is on no rank and in no step that are traced"
}
