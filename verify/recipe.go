package verify

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/train"
)

// flagged is a choice that a run can be given, alone or with another.
type flagged struct {
	name               string
	layout, recipe     string // empty: one rank, fixed
	set, plans, faults []string
	library            string
	vary               [2]string // a plan of each run's own instead of a schedule
}

// healthy are flags that deterministic mode accepts.
var healthy = []flagged{
	{name: "bf16", set: []string{"precision=bf16"}},
	{name: "fp16", set: []string{"precision=fp16"}},
	{name: "fp8", set: []string{"precision=fp8"}},
	{name: "mxfp8", set: []string{"precision=mxfp8"}},
	{name: "nvfp4", set: []string{"precision=nvfp4"}},
	{name: "canonical", recipe: "canonical", set: []string{"model.moe.aux=sequence"}},
	{name: "dp2", layout: "dp=2"},
	{name: "tp2", layout: "tp=2"},
	{name: "pp2", layout: "pp=2"},
	{name: "cp2", layout: "cp=2"},
	{name: "ep2", layout: "dp=2,ep=2"},
	{name: "overlap", layout: "dp=2", set: []string{"cluster.overlap=true", "cluster.bucket=4096"}},
	{name: "replicated", layout: "dp=2", set: []string{"optim.replicated=true"}},
	{name: "micro2", set: []string{"micro=2"}},
	{name: "dropout", set: []string{"model.dropout=0.1"}},
	{name: "recompute", set: []string{"model.recompute=true"}},
	{name: "library", library: "sim-13.3"},
	{name: "pinned-tuner", faults: []string{"autotune@layers.?.mlp.w1"}, plans: []string{"layers.?.mlp.w1 k:lanes(8)"}},
	{name: "split-k-in-order", plans: []string{"*.wk.dw k:splitk(4)"}},
	{name: "fused-loss-in-order", plans: []string{"loss vocab:splitk(8); max=tile phase=fwd"}},
	{name: "tuned-on-a-node", layout: "dp=4", plans: []string{"grads.bucket.? tuned=true"}},
}

// flags are the healthy ones, one for each rule that refuses it, and the recipe that has most of these.
func flags() []flagged {
	all := append(slices.Clone(healthy), flagged{name: "fast", recipe: "fast"})
	for _, r := range run.Rules() {
		s := r.Show
		all = append(all, flagged{name: r.ID, layout: s.Layout, recipe: s.Recipe, set: s.Set, plans: s.Plans, faults: s.Faults, vary: s.Vary})
	}
	return all
}

// recipeSizes makes every preset small: the choices are what is verified.
var recipeSizes = []string{"batch=2", "seq=16", "steps=2"}

const (
	// mostSchedules is under how many schedules a run that is refused may have the same bits: what adds three parts as they come does so by chance.
	mostSchedules = 8
	// largeSteps are those of a run of the preset's own size, in which that must not happen: a narrow format rounds most other orders away.
	largeSteps = 6
)

// combination is a preset with some flags.
type combination struct {
	name string
	spec run.Spec
	vary [2]string

	large train.Config // of the preset's own size
}

// combine is a preset with flags; false: they cannot be had together.
func combine(preset string, of ...flagged) (combination, bool) {
	c := combination{name: preset}
	config, err := train.Preset(preset)
	if err != nil {
		panic(err) // it is one of ours
	}
	c.large = config
	c.large.Steps = largeSteps
	axes, fields := map[string]string{}, map[string]string{}
	for _, field := range recipeSizes {
		mustSet(&config, field)
	}
	for _, f := range of {
		c.name += " " + f.name
		if !c.merge(f, axes) {
			return c, false
		}
		for _, field := range f.set {
			name, value, _ := strings.Cut(field, "=")
			if was, ok := fields[name]; ok && was != value {
				return c, false
			}
			fields[name] = value
			mustSet(&config, field)
			mustSet(&c.large, field)
		}
	}
	var text []string
	for axis, n := range axes { // sorted below
		text = append(text, axis+"="+n)
	}
	slices.Sort(text)
	if len(text) > 0 {
		if c.spec.Layout, err = parallel.ParseLayout(strings.Join(text, ",")); err != nil {
			return c, false
		}
	}
	c.spec.Config = config
	return c, true
}

// merge adds what a flag has besides fields; false: another has something else there.
func (c *combination) merge(f flagged, axes map[string]string) bool {
	one := func(to *string, from string) bool {
		if from == "" {
			return true
		}
		was := *to
		*to = from
		return was == "" || was == from
	}
	for _, axis := range strings.Split(f.layout, ",") {
		name, n, _ := strings.Cut(axis, "=")
		if was, ok := axes[name]; ok {
			n = max(n, was) // of one digit each
		}
		if n != "" {
			axes[name] = n
		}
	}
	c.spec.Plans, c.spec.Faults = append(c.spec.Plans, f.plans...), append(c.spec.Faults, f.faults...)
	if f.vary[0] != "" {
		c.vary = f.vary
	}
	return one(&c.spec.Recipe, f.recipe) && one(&c.spec.Library, f.library)
}

func mustSet(c *train.Config, field string) {
	if err := c.Set(field); err != nil {
		panic(err) // it is one of ours
	}
}

// combinations are each preset with each flag alone, and the one that has every kind of layer with each two.
func combinations(of []flagged) (all []combination) {
	for _, preset := range train.PresetNames() {
		for i, f := range of {
			if c, ok := combine(preset, f); ok {
				all = append(all, c)
			}
			for _, g := range of[:i] {
				if c, ok := combine(preset, g, f); ok && preset == "tiny" {
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// RecipeCells is how many combinations Recipe tries. Some of them do not exist.
func RecipeCells() int { return len(combinations(flags())) }

// Recipe holds deterministic mode to what runs do: what it accepts has the same bits under two schedules, what it refuses has others under
// some, where nobody refuses it. each is called with every cell in order, step with every combination, whether it exists or not.
func Recipe(each func(Cell) error, step func()) ([]Cell, error) {
	return recipeOf(combinations(flags()), (*run.Spec).Check, each, step)
}

// recipeOf is Recipe of some combinations, by who says what is to be refused.
func recipeOf(of []combination, check func(*run.Spec) error, each func(Cell) error, step func()) (cells []Cell, err error) {
	type done struct {
		cell *Cell
		err  error
	}
	results := make([]chan done, len(of))
	next, stop := make(chan int), make(chan struct{})
	var workers sync.WaitGroup
	for i := range results {
		results[i] = make(chan done, 1)
	}
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := range next {
				cell, err := of[i].verify(check)
				results[i] <- done{cell, err}
			}
		})
	}
	go func() {
		defer close(next)
		for i := range of {
			select {
			case next <- i:
			case <-stop:
				return
			}
		}
	}()
	defer workers.Wait()
	defer close(stop)
	for i := range of {
		r := <-results[i]
		step()
		if r.err != nil {
			return nil, fmt.Errorf("%s: %w", of[i].name, r.err)
		}
		if r.cell == nil {
			continue
		}
		cells = append(cells, *r.cell)
		if each != nil {
			if err := each(*r.cell); err != nil {
				return nil, err
			}
		}
	}
	return cells, nil
}

// verify is the cell of a combination; nil: there is no such run.
func (c combination) verify(check func(*run.Spec) error) (*Cell, error) {
	s := c.spec
	s.Digest, s.Checks = true, run.Checks{Strict: true, Deterministic: true}
	if c.vary[0] != "" {
		s.Plans = append(slices.Clone(s.Plans), c.vary[0])
	}
	err := check(&s)
	refused := run.Refusal{}
	if isRefused := errors.As(err, &refused); err != nil && !isRefused {
		return nil, nil
	}
	s.Deterministic = false
	s.Schedule = device.Schedule{Seed: 1}
	if refused.Rule != "" {
		s.Until = 1 // most part in the first step
	}
	first, err := run.Run(s)
	if err != nil || first.Missed != nil { // nothing there has what is named
		return nil, nil //nolint:nilerr // such a run does not exist, which is no failure of deterministic mode
	}
	cell := &Cell{Name: c.name, OK: true, Hash: first.Steps[len(first.Steps)-1].State}
	if err == nil && refused.Rule == "" {
		return cell, c.repeats(s, first, cell)
	}
	cell.Name, cell.Hash = c.name+": refused by "+refused.Rule, ""
	parted, err := c.parts(s, first)
	if !parted && err == nil {
		s.Config, s.Until = c.large, 0
		if first, err = run.Run(s); err == nil {
			parted, err = c.parts(s, first)
		}
	}
	if !parted && err == nil {
		cell.fail(fmt.Sprintf("has the same bits under %d schedules", mostSchedules))
	}
	return cell, err
}

// repeats fails a cell that has other bits under another schedule.
func (c combination) repeats(s run.Spec, first *run.Outcome, cell *Cell) error {
	s.Schedule.Seed = 2
	again, err := run.Run(s)
	if err == nil {
		if why := sameSteps(first.Steps, again.Steps); why != "" {
			cell.fail("is accepted, and differs under another schedule: " + why)
		}
	}
	return err
}

// parts tells whether a run has other bits than a first one under another schedule, or with the other plan of its pair.
func (c combination) parts(s run.Spec, first *run.Outcome) (_ bool, err error) {
	for s.Schedule.Seed = 2; s.Schedule.Seed <= mostSchedules && err == nil; s.Schedule.Seed++ {
		if c.vary[0] != "" {
			s.Plans = append(slices.Clone(c.spec.Plans), c.vary[(s.Schedule.Seed+1)%2])
		}
		var again *run.Outcome
		if again, err = run.Run(s); err == nil && sameSteps(first.Steps, again.Steps) != "" {
			return true, nil
		}
	}
	return false, err
}
