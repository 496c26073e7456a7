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
	"firstbit/state"
	"firstbit/trace"
)

// checkNamed refuses what a fault names and no run of the Spec has, before anything runs. Names of Calls are known after it: see missed.
func (s *Spec) checkNamed(c choices) error {
	for _, f := range c.injector.Faults {
		if err := s.checkFault(f); err != nil {
			return fmt.Errorf("--inject %q: %w", f.Text, err)
		}
	}
	return s.checkSteps(0)
}

func (s *Spec) checkFault(f *inject.Fault) error {
	loads := f.Restores() || f.Phase == device.Load
	switch last := s.Layout.World() - 1; {
	case f.Restores() && s.Resume == "":
		return fmt.Errorf("%s acts where a run continues: needs --resume DIR", f.Kind)
	case loads && s.Resume == "" && s.Config.Weights == "":
		return fmt.Errorf("phase=load: a run that begins anew restores nothing: needs --resume DIR")
	case f.Rank > last:
		return fmt.Errorf("rank: %d: must be from 0 to %d, the ranks of layout %q", f.Rank, last, s.Layout)
	case f.Micro >= s.Config.Micro:
		return fmt.Errorf("micro: %d: must be from 0 to %d, the microbatches that a rank has in a step", f.Micro, s.Config.Micro-1)
	case !loads && s.Config.Precision != lowp.FP64.String() && f.Bit >= lowp.FP32.Bits():
		return fmt.Errorf("bit: %d: must be from 0 to %d: no format of precision %s is wider", f.Bit, lowp.FP32.Bits()-1, s.Config.Precision)
	}
	return nil
}

// checkSteps refuses steps that do not come after the one with which the run begins: 0, or a checkpoint's.
func (s *Spec) checkSteps(begin int) error {
	c, err := s.choices()
	if err != nil {
		return err
	}
	for _, f := range c.injector.Faults {
		first := begin + 1
		if f.Phase == device.Init || f.Phase == device.Load { // which belong to the step before
			first = begin
		}
		if !f.Steps.Within(first, s.Config.Steps) {
			return fmt.Errorf("--inject %q: step: must be from %d to %d, the steps of the run", f.Text, first, s.Config.Steps)
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
		if report.Acted > 0 && len(f.Globs()) == 1 { // one of two may be enough to act
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
	for _, glob := range s.Globs() {
		phases, on := map[string]bool{}, map[int]bool{}
		for rank, r := range s.ranks {
			for _, c := range r.device.Calls() {
				if !s.acts(c) || !c.Matches(glob) {
					continue
				}
				if phases[c.ID.Phase.String()] = true; c.ID.Phase == s.Phase || s.everyPhase() {
					on[rank] = true
				}
			}
		}
		switch {
		case len(phases) == 0:
			return unnamed(s.ranks, s.noun(), glob, s.acts)
		case len(on) == 0:
			return fmt.Sprintf("no %s of that name in phase %s: must be phase=%s", s.noun(), s.Phase, few(phases))
		case s.Kind != "order" && s.Rank >= 0 && !on[s.Rank]:
			return fmt.Sprintf("no %s of that name on rank %d: must be rank=%s", s.noun(), s.Rank, few(on))
		}
	}
	return elsewhere
}

// elsewhere says that a name occurs, and where it is looked for.
const elsewhere = "what it names is not in its steps, microbatch and ranks"

// everyPhase tells whether the fault acts in whatever phase.
func (s sought) everyPhase() bool {
	return slices.Contains([]string{"order", "alias", "live", "rebuild"}, s.Kind)
}

// acts tells whether a Call is of a kind that the fault acts on.
func (s sought) acts(c *device.Call) bool {
	switch s.Kind {
	case "seed", "draw":
		return c.Kind == device.Loading && c.Scope == "" && c.State != nil && c.State.Role == state.RandomStream
	case "copy":
		return c.Kind == device.Loading
	case "drop", "set":
		return c.ID.Phase == device.Load
	case "order":
		return c.Kind != device.Module && c.ID.Phase != device.Init
	}
	return c.Kind != device.Module
}

func (s sought) noun() string {
	switch {
	case s.Kind == "seed" || s.Kind == "draw":
		return "random stream"
	case s.Restores():
		return "state"
	}
	return "Call"
}

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
