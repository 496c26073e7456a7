package swarm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"firstbit/device"
	"firstbit/files"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/trace"
	"firstbit/train"
)

// Case is a pair of small runs, all that makes them differ, and where. Its JSON replays it.
type Case struct {
	Kind      string      `json:"kind"`
	Set       []string    `json:"set,omitempty"` // of both runs, over the preset pico
	Layout    string      `json:"layout,omitempty"`
	Recipe    string      `json:"recipe,omitempty"`
	Plans     []string    `json:"plans,omitempty"` // of both
	Ranks     string      `json:"ranks,omitempty"` // that are traced; empty: all
	Steps     string      `json:"steps,omitempty"` // that are traced; empty: all
	ScheduleA uint64      `json:"schedule_a,omitempty"`
	Saved     int         `json:"saved,omitempty"` // run B continues after this step; 0: it begins
	Every     bool        `json:"every,omitempty"` // the earlier steps are saved too
	Whole     bool        `json:"whole,omitempty"` // and run A never stopped; else it continues too
	Alone     bool        `json:"alone,omitempty"` // run B's trace is all there is
	SetB      []string    `json:"set_b,omitempty"`
	StepsB    string      `json:"steps_b,omitempty"`
	ScheduleB uint64      `json:"schedule_b,omitempty"`
	Faults    []Fault     `json:"faults,omitempty"` // of run B
	Distorted *Distortion `json:"distorted,omitempty"`
}

// Fault is one fault, as inject reads it, and the Calls that it acts on, as records show them: told by who drew it, and not by what inject
// makes of its text.
type Fault struct {
	Kind  string `json:"kind"`
	Text  string `json:"text"`
	Name  string `json:"name"`  // scope and name of the Call, or the state
	Phase string `json:"phase"` // empty: any
	Out   string `json:"out,omitempty"`
	With  string `json:"with,omitempty"` // the other Call of a shared memory
	Step  int    `json:"step"`
	Rank  int    `json:"rank"`  // −1: all
	Micro int    `json:"micro"` // −1: all
}

const all = -1

// acts tells whether a record is of a Call on which the fault acts.
func (f *Fault) acts(r *trace.Record) bool {
	return trace.Path(r.Scope, r.Name) == f.Name && (f.Phase == "" || f.Phase == r.Phase) && f.Step == r.Iteration &&
		(f.Rank == all || f.Rank == r.Rank) && (f.Micro == all || f.Micro == r.Microbatch)
}

// Parse reads the JSON of a case.
func Parse(text string) (*Case, error) {
	c := &Case{}
	if err := files.JSON([]byte(text), c, false); err != nil {
		return nil, err
	}
	if kindOf(c.Kind) == nil {
		return nil, fmt.Errorf("kind: %q: must be one of %s", c.Kind, strings.Join(Kinds(), ", "))
	}
	_, err := c.spec(nil, nil)
	return c, err
}

// Text is the case in one line.
func (c *Case) Text() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic("swarm: a case is JSON")
	}
	return string(text)
}

// config is the configuration of a run that sets more besides.
func (c *Case) config(more []string) (train.Config, error) {
	config := train.Pico()
	for _, s := range append(slices.Clone(c.Set), more...) {
		if err := config.Set(s); err != nil {
			return config, err
		}
	}
	return config, nil
}

// spec is a run of the case, with what it sets and the faults it has besides.
func (c *Case) spec(more []string, faults []Fault) (s run.Spec, err error) {
	if s.Config, err = c.config(more); err != nil {
		return s, err
	}
	if s.Layout, err = parallel.ParseLayout(c.Layout); err != nil {
		return s, err
	}
	s.Recipe, s.Plans, s.Strict = c.Recipe, c.Plans, len(faults) > 0
	for _, f := range faults {
		s.Faults = append(s.Faults, f.Text)
	}
	s.Trace.Level = trace.Op
	if s.Trace.Ranks, err = trace.ParseSet(c.Ranks); err != nil {
		return s, err
	}
	s.Trace.Steps, err = trace.ParseSet(c.Steps)
	return s, err
}

// every is after how many steps a run saves.
func (c *Case) every() int {
	if c.Every {
		return 1
	}
	return c.Saved
}

// Commands run the case by hand.
func (c *Case) Commands() string {
	line := func(dir string, more []string, steps string, schedule uint64, faults []Fault, rest ...string) string {
		words := []string{"firstbit train --preset pico"}
		add := func(flag, value string) {
			if value != "" && value != "0" {
				words = append(words, fmt.Sprintf("--%s '%s'", flag, value))
			}
		}
		for _, s := range append(slices.Clone(c.Set), more...) {
			add("set", s)
		}
		add("layout", c.Layout)
		add("recipe", c.Recipe)
		for _, p := range c.Plans {
			add("plan", p)
		}
		for _, f := range faults {
			add("inject", f.Text)
		}
		add("schedule", fmt.Sprint(schedule))
		add("trace-steps", steps)
		add("trace-ranks", c.Ranks)
		return strings.Join(append(append(words, rest...), "--trace "+dir), " ")
	}
	stepsB := c.Steps
	if c.StepsB != "" {
		stepsB = c.StepsB
	}
	saved, resume := fmt.Sprintf("--save ck --save-every %d", c.every()), fmt.Sprintf("--resume ck/step%06d", c.Saved)
	diff := "firstbit diff a b"
	if c.Alone {
		diff = "firstbit diff b"
	}
	b := func(rest ...string) string { return line("b", c.SetB, stepsB, c.ScheduleB, c.Faults, rest...) }
	switch {
	case c.Saved == 0:
		return strings.Join([]string{line("a", nil, c.Steps, c.ScheduleA, nil), b(), diff}, "\n")
	case c.Whole:
		return strings.Join([]string{line("a", nil, c.Steps, c.ScheduleA, nil, saved), b(resume), diff}, "\n")
	}
	return strings.Join([]string{line("w", nil, c.Steps, c.ScheduleA, nil, saved), line("a", nil, c.Steps, c.ScheduleA, nil, resume), b(resume), diff}, "\n")
}

// pair is the two traces of a case, without a word of what was injected.
type pair struct {
	a, b    *trace.Trace
	changed int // on so many Calls, of both runs, a fault left other bits
}

// bench runs cases. Of cases that differ in run B alone it runs A once.
type bench struct {
	dir   string // for checkpoints; empty: none was needed yet
	name  string // of the run A that is kept
	a     *trace.Trace
	saved string
	runs  int
}

func (b *bench) close() {
	if b.dir != "" {
		_ = os.RemoveAll(b.dir) // of temporary files
	}
}

// run runs both sides.
func (b *bench) run(c *Case) (p pair, err error) {
	if err := b.healthy(c); err != nil {
		return p, err
	}
	p.a = b.a
	p.b, p.changed, err = b.broken(c, c.Faults)
	return p, err
}

// healthy makes run A, and the checkpoint that run B continues, unless the last case had the same.
func (b *bench) healthy(c *Case) error {
	key := *c
	key.Kind, key.Alone, key.SetB, key.StepsB, key.ScheduleB, key.Faults, key.Distorted = "", false, nil, "", 0, nil, nil
	name := key.Text()
	if name == b.name {
		return nil
	}
	b.name = ""
	s, err := c.spec(nil, nil)
	if err != nil {
		return err
	}
	s.Schedule = device.Schedule{Seed: c.ScheduleA}
	if c.Saved > 0 {
		if b.dir == "" {
			if b.dir, err = os.MkdirTemp("", "firstbit-swarm-"); err != nil {
				return err
			}
		}
		b.runs++
		s.Save = run.Save{Dir: filepath.Join(b.dir, fmt.Sprint(b.runs)), Every: c.every()}
		b.saved = filepath.Join(s.Save.Dir, fmt.Sprintf("step%06d", c.Saved))
	}
	if c.Saved > 0 && !c.Whole {
		first := s
		first.Trace, first.Until = trace.Options{}, c.Saved
		if _, err := run.Run(first); err != nil {
			return err
		}
		s.Save, s.Resume = run.Save{}, b.saved
	}
	if b.a, _, err = traced(s); err != nil {
		return err
	}
	b.name = name
	return nil
}

// broken is run B with some of its faults.
func (b *bench) broken(c *Case, faults []Fault) (*trace.Trace, int, error) {
	s, err := c.spec(c.SetB, faults)
	if err != nil {
		return nil, 0, err
	}
	if c.StepsB != "" {
		if s.Trace.Steps, err = trace.ParseSet(c.StepsB); err != nil {
			return nil, 0, err
		}
	}
	s.Schedule = device.Schedule{Seed: c.ScheduleB}
	if c.Saved > 0 {
		s.Resume = b.saved
	}
	return traced(s)
}

// traced is the trace of a run, without its faults.
func traced(s run.Spec) (t *trace.Trace, changed int, err error) {
	t = &trace.Trace{}
	s.Trace.Into = t
	o, err := run.Run(s)
	if err == nil {
		err = o.Missed
	}
	if err != nil {
		return nil, 0, err
	}
	t.Dir = "a folder"
	t.Run.Faults = nil
	delete(t.Raw, "faults")
	for _, f := range o.Faults {
		changed += f.Changed
	}
	return t, changed, nil
}
