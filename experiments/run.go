// Package experiments assembles runs and keeps the catalog of root causes: for each, a pair of runs
// that parts, what the localiser must find, and what makes the pair one again.
package experiments

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"firstbit/checkpoint"
	"firstbit/device"
	"firstbit/inject"
	"firstbit/model"
	"firstbit/trace"
	"firstbit/train"
	"firstbit/tune"
)

// Spec is one run: a configuration and every choice around it.
type Spec struct {
	Config   train.Config
	Schedule device.Schedule
	Recipe   string   // fixed or fast; empty: fixed
	Plans    []string // policies by hand, 'GLOB PLAN', later ones over earlier ones
	Faults   []string // faults to inject
	Trace    trace.Options
	Until    int    // stop after this step; 0: Config.Steps
	Digest   bool   // fingerprint the whole state after every step
	Routes   bool   // keep the routes
	Load     bool   // count the tokens of every expert
	Export   string // write the weights into this new folder at the end, as transformers' nemotron_h; empty: nowhere

	// Deterministic refuses whatever depends on arrival; it changes nothing.
	Deterministic bool

	// watch is one more middleware, around the kernels alone; nil: none.
	watch device.Middleware

	// Each is called after every step; nil: nobody watches.
	Each func(train.Result)
}

// Outcome is what a run leaves besides its trace.
type Outcome struct {
	Steps    []train.Result
	Unigram  float64 // of the corpus, nats
	Routes   []Routes
	Load     []Load
	Changed  []FaultReport
	Policies []FaultReport

	// NonFinite names the Call that first wrote a NaN or an infinity, if a metric shows one.
	NonFinite string
}

// FaultReport says how often a fault or policy changed a Call. One that changed nothing
// was not injected.
type FaultReport struct {
	Text    string `json:"fault"`
	Changed int    `json:"changed"`
}

// Check reports what can be known to be wrong with a Spec before anything runs or is written.
func (s *Spec) Check() error {
	if s.Recipe == "" {
		s.Recipe = tune.Recipes[0]
	}
	if err := tune.ParseRecipe(s.Recipe); err != nil {
		return err
	}
	if err := s.Config.Validate(); err != nil {
		return err
	}
	if s.Export != "" {
		if err := s.checkExport(); err != nil {
			return fmt.Errorf("export %s: %w", s.Export, err)
		}
	}
	c, err := s.choices()
	if err != nil || !s.Deterministic {
		return err
	}
	return s.verifyDeterministic(c)
}

func (s *Spec) checkExport() error {
	if _, err := os.Lstat(s.Export); err == nil {
		return fmt.Errorf("exists: must be a new folder")
	}
	_, err := checkpoint.ConfigToHF(s.Config.Model) // what it cannot say is known before the first step
	return err
}

// export writes the weights beside the folder that is to be and renames it, so that there is all or nothing.
func (s *Spec) export(m *model.Model) error {
	parent := filepath.Dir(s.Export)
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	dir, err := os.MkdirTemp(parent, ".firstbit-export-")
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := checkpoint.SaveHF(filepath.Join(dir, "model"), m); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, "model"), s.Export)
}

// verifyDeterministic refuses what a deterministic run must not have. Like the reference's
// flag it verifies and never flips a setting.
func (s *Spec) verifyDeterministic(c choices) error {
	if s.Recipe != "fixed" {
		return fmt.Errorf("deterministic: recipe %s: must be fixed", s.Recipe)
	}
	if s.Schedule.Real {
		return fmt.Errorf("deterministic: schedule real: must be a seed")
	}
	for _, p := range c.tuner.Policies {
		if p.Plan.Varies() {
			return fmt.Errorf("deterministic: plan %q depends on arrival: must be an order of the call alone", p.Text)
		}
	}
	return nil
}

// choices are the parts of a run that choose and break.
type choices struct {
	tuner    *tune.Tuner
	injector inject.Injector
}

func (s *Spec) choices() (choices, error) {
	c := choices{tuner: &tune.Tuner{Recipe: s.Recipe}}
	for _, text := range s.Plans {
		p, err := tune.ParsePolicy(text)
		if err != nil {
			return c, err
		}
		c.tuner.Policies = append(c.tuner.Policies, p)
	}
	for _, text := range s.Faults {
		f, err := inject.Parse(text)
		if err != nil {
			return c, err
		}
		c.injector.Faults = append(c.injector.Faults, f)
		if p := f.Policy(); p != nil {
			c.tuner.Policies = append(c.tuner.Policies, p)
		}
	}
	return c, nil
}

// session is a run put together, before its first step.
type session struct {
	choices
	device  *device.Device
	trainer *train.Trainer
	tracer  *trace.Tracer // nil: no trace
	outcome *Outcome
}

// Run is the one place where a trainer meets its middleware.
func Run(s Spec) (*Outcome, error) {
	run, err := s.assemble()
	if err != nil {
		return nil, err
	}
	err = run.loop(&s)
	if run.tracer != nil {
		if e := run.tracer.Close(); err == nil {
			err = e
		}
		if err != nil {
			run.tracer.Remove()
		}
	}
	if err != nil {
		return nil, err
	}
	run.report()
	if s.Export != "" {
		if err := s.export(run.trainer.Model); err != nil {
			return nil, err
		}
	}
	if step := run.outcome.firstNonFinite(); step > 0 && !s.Schedule.Real {
		run.outcome.NonFinite, err = s.findNonFinite(step)
	}
	return run.outcome, err
}

// assemble chains memory(trace(tune(inject(run)))) around a trainer's device.
func (s *Spec) assemble() (*session, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	c, err := s.choices()
	if err != nil {
		return nil, err
	}
	run := &session{choices: c, outcome: &Outcome{}}
	chain := []device.Middleware{c.injector.Memory}
	if s.Trace.Level > trace.Off {
		if run.tracer, err = trace.New(s.Trace, 0, s.describe()); err != nil {
			return nil, err
		}
		chain = append(chain, run.tracer.Middleware)
	}
	chain = append(chain, c.tuner.Middleware, c.injector.Middleware)
	if s.Routes {
		chain = append(chain, run.outcome.observe)
	}
	if s.Load {
		chain = append(chain, run.outcome.count)
	}
	if s.watch != nil {
		chain = append(chain, s.watch)
	}
	run.device = device.New(device.Options{Schedule: s.Schedule}, chain...)
	run.trainer, err = train.New(s.Config, run.device)
	if err != nil {
		if run.tracer != nil {
			run.tracer.Remove()
		}
		return nil, err
	}
	run.trainer.Digest = s.Digest || s.Trace.Level > trace.Off
	if run.tracer != nil {
		run.trainer.StateAt = run.tracer.WantsState
	}
	return run, nil
}

func (r *session) loop(s *Spec) error {
	o := r.outcome
	o.Unigram = r.trainer.Corpus.Unigram()
	until := s.Config.Steps
	if s.Until > 0 {
		until = min(until, s.Until)
	}
	for range until {
		step := r.trainer.Step()
		if err := r.err(); err != nil { // a plan or fault that does not fit what it names
			return err
		}
		o.Steps = append(o.Steps, step)
		if s.Each != nil {
			s.Each(step)
		}
	}
	return nil
}

func (r *session) err() error {
	if err := cmp.Or(r.tuner.Err(), r.device.Err()); err != nil {
		return err
	}
	for _, f := range r.injector.Faults {
		if err := f.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (r *session) report() {
	o := r.outcome
	for _, f := range r.injector.Faults {
		o.Changed = append(o.Changed, FaultReport{f.Text, f.Changed()})
	}
	for _, p := range r.tuner.Policies {
		o.Policies = append(o.Policies, FaultReport{p.Text, p.Calls})
	}
}

func (s *Spec) describe() trace.Run {
	return trace.Run{Config: s.Config, Layout: "dp=1", Groups: map[string][]int{}, Seed: s.Config.Seed, Schedule: s.Schedule.String(),
		Recipe: s.Recipe, Plans: append([]string{}, s.Plans...), Faults: append([]string{}, s.Faults...),
		Library: device.DefaultLibrary, Level: s.Trace.Level.String()}
}
