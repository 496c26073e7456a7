package run

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/match"

	"firstbit/device"
	"firstbit/inject"
	"firstbit/lowp"
	"firstbit/spell"
	"firstbit/state"
	"firstbit/trace"
	"firstbit/tune"
)

// grid is the ranks of the run.
func (s *Spec) grid() tune.Grid {
	g := tune.Grid{Layout: s.Layout.String(), Micro: s.Config.Micro}
	for rank := range s.Layout.World() {
		g.Ranks = append(g.Ranks, s.Layout.At(rank))
	}
	return g
}

// checkNamed refuses what a fault or a plan names and no run of the Spec has, before anything runs. Names of Calls are known after it: see missed.
func (s *Spec) checkNamed(c choices) error {
	run := inject.Run{Grid: s.grid(), Precision: s.Config.Precision, Widest: lowp.FP32, Resumes: s.Resume != "", Loads: s.Config.Weights != "", Traced: s.Trace.Level > trace.Off}
	if run.Precision == lowp.FP64.String() {
		run.Widest = lowp.FP64
	}
	for _, f := range c.injector.Faults {
		if err := f.Check(run); err != nil {
			return err
		}
	}
	for i, text := range s.Plans { // by hand: they come before those of faults
		if err := c.tuner.Policies[i].Check(run.Grid); err != nil {
			return fmt.Errorf("--plan %q: %w", text, err)
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
	for i, text := range s.Plans {
		if err := c.tuner.Policies[i].CheckSteps(begin, s.Config.Steps); err != nil { // what is restored has plans too
			return fmt.Errorf("--plan %q: %w", text, err)
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
		if f.Looks() && s.Trace.Level < trace.Op { // what it errs about is not looked at
			continue
		}
		look := sought{ranks, f.Noun(), f.Globs, &f.Where, f.On, f.States(), f.Either()}
		if why := look.why(); report.Acted == 0 || why != elsewhere {
			return fmt.Errorf("--inject %q: %s", f.Text, why)
		}
	}
	for i, text := range s.Plans {
		calls := 0
		for _, r := range ranks {
			calls += r.tuner.Policies[i].Calls
		}
		if p := first.tuner.Policies[i]; calls == 0 {
			if p.Glob == tune.All {
				return fmt.Errorf("--plan %q: no Call there has %s to choose", text, strings.Join(p.Plan.Names(), " or "))
			}
			look := sought{ranks, "Call", []string{p.Glob}, &p.Where, func(c *device.Call) bool { return c.ID.Phase != device.Init }, false, false}
			return fmt.Errorf("--plan %q: %s", text, look.why())
		}
	}
	if t := first.tracer; t != nil && t.Dump != "" && !t.Dumped() {
		return fmt.Errorf("--dump %q: %s", t.Dump, undumped(ranks, t))
	}
	return nil
}

// sought is what a fault or a plan that did not act looked for, and where.
type sought struct {
	ranks  []*session
	noun   string
	globs  []string
	where  *tune.Where
	on     func(*device.Call) bool
	states bool // it looked for states
	either bool // in a restore it would have
}

// why is the first of name, phase and rank that nothing had.
func (s sought) why() string {
	for _, glob := range s.globs {
		phases, on := s.found(glob)
		switch {
		case len(phases) == 0:
			return s.unnamed(glob)
		case len(on) == 0:
			phase := "a step"
			if s.where.Phase < device.Phase(len(device.PhaseNames())) {
				phase = "phase " + s.where.Phase.String()
			}
			return fmt.Sprintf("no %s of that name in %s: must be phase=%s", s.noun, phase, few(phases))
		}
		if !slices.ContainsFunc(slices.Sorted(maps.Keys(on)), func(rank int) bool { return s.where.OnRank(rank, s.ranks[rank].device.Coord()) }) {
			return fmt.Sprintf("no %s of that name on %s: must be rank=%s", s.noun, s.where.RankText(), few(on))
		}
	}
	return elsewhere
}

// found is the phases in which a rank has something of the name, and the ranks that have it in one that was sought.
func (s sought) found(glob string) (phases map[string]bool, on map[int]bool) {
	phases, on = map[string]bool{}, map[int]bool{}
	for rank, r := range s.ranks {
		for _, h := range r.states(s.states, s.noun) {
			if match.Match(h, glob) {
				phases[device.Load.String()], on[rank] = true, true
			}
		}
		for _, c := range r.device.Calls() {
			if !s.on(c) || !c.Matches(glob) {
				continue
			}
			if phases[c.ID.Phase.String()] = true; s.where.InPhase(c.ID.Phase) {
				on[rank] = true
			}
		}
	}
	return phases, on
}

// states are the names of the states that a fault can act on, or of none.
func (r *session) states(wanted bool, noun string) (names []string) {
	if !wanted {
		return nil
	}
	for _, h := range r.trainer.States(state.Role.Saved) {
		if noun == "state" || h.Role == state.RandomStream {
			names = append(names, h.Name)
		}
	}
	return names
}

// unnamed says which names are nearest, or that a state has the name, on which the fault acts in a restore.
func (s sought) unnamed(glob string) string {
	names := namesOf(s.ranks, s.on)
	for _, r := range s.ranks {
		for _, name := range r.states(s.states, s.noun) {
			names[name] = true
		}
	}
	if s.either && !s.states {
		restored := sought{ranks: s.ranks, noun: "state", where: s.where, on: func(*device.Call) bool { return false }, states: true}
		if phases, _ := restored.found(glob); len(phases) > 0 {
			return fmt.Sprintf("no %s of that name: a state has it, and --resume DIR restores states", s.noun)
		}
	}
	return nearest(s.noun, glob, names)
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

// namesOf are the names of some Calls and of their kernels' parts.
func namesOf(ranks []*session, of func(*device.Call) bool) map[string]bool {
	names := map[string]bool{}
	for _, r := range ranks {
		for _, c := range r.device.Calls() {
			if !of(c) {
				continue
			}
			names[c.ID.Path] = true
			for _, p := range c.Kernel.Subkernels {
				names[trace.Path(c.Scope, p.Name)] = true
			}
		}
	}
	return names
}

// nearest says that a GLOB names none of some names, and which are nearest.
func nearest(noun, glob string, names map[string]bool) string {
	near := spell.Nearest(glob, slices.Sorted(maps.Keys(names)), mostNamed)
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
		return nearest("Call", t.Dump, namesOf(ranks, func(*device.Call) bool { return true }))
	case need > t.Level:
		return fmt.Sprintf("what it names is traced from level %s on, not at %s", need, t.Level)
	}
	return "what it names is on no rank and in no step that are traced"
}
