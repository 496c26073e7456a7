// Package run assembles a run and drives it to its end: ranks with their trainers and middleware, the checkpoint it continues, what it
// writes, and what faults and interrupts make of it.
package run

import (
	"fmt"

	"firstbit/checkpoint"
	"firstbit/device"
	"firstbit/inject"
	"firstbit/machine"
	"firstbit/parallel"
	"firstbit/trace"
	"firstbit/train"
	"firstbit/tune"
)

// Spec is one run: a configuration and every choice around it.
type Spec struct {
	// What decides the bits.
	Config   train.Config
	Layout   parallel.Layout // the zero value: one rank
	Schedule device.Schedule
	Recipe   string   // one of tune.Recipes; empty: fixed
	Library  string   // release of the kernel library; empty: the first
	Plans    []string // policies by hand, 'GLOB PLAN', later ones over earlier ones
	Faults   []string // faults to inject

	// Where it begins and ends.
	Resume  string // continue the run of this checkpoint, or of the newest in this folder; empty: begin one
	Reshard bool   // continue it on another layout even if the bits are others then
	Until   int    // stop after this step; 0: Config.Steps
	// Interrupt, once closed, has the run end after a step: every rank after the same one. nil: it never does.
	Interrupt <-chan struct{}

	// What it writes.
	Trace  trace.Options
	Save   Save
	Export string // the weights into this new folder at the end, as transformers' nemotron_h; empty: nowhere

	Kept
	Checks
	Hooks
}

// Kept says what the Outcome has besides metrics.
type Kept struct {
	Digest   bool // a fingerprint of the whole state after every step
	Elements bool // another by elements, whichever rank has them
	Routes   bool
	Load     bool // the tokens of every expert
}

// Checks say what is refused though it could run. They change nothing.
type Checks struct {
	// Strict refuses faults, plans and dumps that name what does not occur. The catalog's causes are shown on layouts and models that
	// need not have all that their faults name.
	Strict bool
	// Deterministic refuses what Rules name.
	Deterministic bool
}

// Hooks are called while the run goes; nil: nobody watches. An error ends the run.
type Hooks struct {
	Begin    func()                                                 // before the first step, when all that can be known before was found well
	Each     func(train.Result) error                               // after every step of the first rank
	EachRank func(rank int, t *train.Trainer, r train.Result) error // by every rank, all at once
	Watch    func(rank int) device.Middleware                       // one more middleware, which sees what a trace sees
}

// job is a run under way.
type job struct {
	*Spec
	resumed *checkpoint.Checkpoint           // that it continues; nil: none
	whole   *checkpoint.Whole                // of another layout's ranks; nil: of this one's
	given   string                           // the Call that runs on operands of a user's file; empty: none does
	refused *refusals                        // collects what deterministic mode refuses; nil: the first ends a run that is to be deterministic
	inner   func(rank int) device.Middleware // around the kernel, where plans are chosen; nil: none
}

// Outcome is what a run leaves besides its trace.
type Outcome struct {
	Steps    []train.Result
	Unigram  float64 // of the corpus, nats
	Routes   []Routes
	Load     []Load
	Elements []uint64 // of every step
	Faults   []trace.Fault

	// Missed says of the first fault, plan or dump that named nothing what there is instead; nil: all did, or the Spec is not Strict.
	Missed error

	// Resharded says what is another way than on the layout that was saved; empty: nothing, or it is the same layout.
	Resharded string

	// Notes are what else a user of a run that continues ought to know, a line each.
	Notes []string

	// NonFinite names the Call that first wrote a NaN or an infinity, if a metric or a state shows one.
	NonFinite string
}

// Check reports what can be known to be wrong with a Spec before anything runs or is written.
func (s *Spec) Check() error {
	if s.Recipe == "" {
		s.Recipe = tune.Recipes[0]
	}
	if s.Library == "" {
		s.Library = device.DefaultLibrary
	}
	s.Layout = s.Layout.Full()
	if err := tune.ParseRelease(s.Library); err != nil {
		return err
	}
	if err := tune.ParseRecipe(s.Recipe); err != nil {
		return err
	}
	if err := s.Config.Validate(); err != nil {
		return err
	}
	if s.Recipe == tune.Canonical {
		if err := s.Config.CheckCanonical(s.Layout); err != nil {
			return err
		}
	}
	if err := s.Config.CheckLayout(s.Layout); err != nil {
		return err
	}
	if available, known := machine.Memory(); known {
		if err := s.Config.CheckMemory(s.Layout, available); err != nil {
			return err
		}
	}
	if parts := s.Layout.World() / s.Layout.DP; parts > 1 || s.Layout.EP > 1 { // no rank has whole weights
		for _, x := range [][2]string{{"export", s.Export}, {"weights", s.Config.Weights}} {
			if x[1] != "" {
				return fmt.Errorf("%s %s: layout %q cuts the weights: must be dp alone", x[0], x[1], s.Layout)
			}
		}
	}
	if s.Export != "" { // what cannot be said is known before the first step
		if _, err := checkpoint.ConfigToHF(s.Config.Model); err != nil {
			return fmt.Errorf("export %s: %w", s.Export, err)
		}
	}
	if err := s.Save.check(); err != nil {
		return err
	}
	c, err := s.choices()
	if err == nil && s.Strict {
		err = s.checkNamed(c)
	}
	if err == nil && s.Deterministic {
		err = s.verifyDeterministic()
	}
	return err
}

// choices are the parts of a run that choose and break.
type choices struct {
	tuner    *tune.Tuner
	injector *inject.Injector
}

func (s *Spec) choices() (choices, error) {
	c := choices{tuner: &tune.Tuner{Recipe: s.Recipe, Library: s.Library, Seq: s.Config.Seq}, injector: &inject.Injector{}}
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
		f.Settle(s.Resume != "")
		c.injector.Faults = append(c.injector.Faults, f)
		if p := f.Policy(); p != nil {
			c.tuner.Policies = append(c.tuner.Policies, p)
		}
	}
	return c, nil
}

// faults are those of a run that has not begun.
func (s *Spec) faults() []trace.Fault {
	faults := []trace.Fault{}
	for _, text := range s.Faults {
		faults = append(faults, trace.Fault{Spec: text})
	}
	return faults
}

func (s *Spec) describe(world *parallel.World) trace.Run {
	return trace.Run{Config: s.Config, Layout: s.Layout.String(), Groups: world.Groups(), Seed: s.Config.Seed, Schedule: s.Schedule.String(),
		Recipe: s.Recipe, Plans: append([]string{}, s.Plans...), Faults: s.faults(),
		Library: s.Library, Level: s.Trace.Level.String(), Parts: s.Trace.Parts}
}
