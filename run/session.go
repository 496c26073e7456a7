package run

import (
	"cmp"
	"encoding/hex"
	"math"
	"slices"

	"github.com/zeebo/xxh3"

	"firstbit/checkpoint"
	"firstbit/data"
	"firstbit/device"
	"firstbit/parallel"
	"firstbit/state"
	"firstbit/trace"
	"firstbit/train"
	"firstbit/tune"
)

// session is one rank's part of a run, put together, before its first step.
type session struct {
	choices
	device  *device.Device
	trainer *train.Trainer
	tracer  *trace.Tracer // nil: no trace
	outcome *Outcome
	refused error     // what deterministic mode found in a Call; nil: nothing
	held    [][]piece // of every step, where elements are asked for
	anew    []string  // random streams that no checkpoint had
}

// Run is the one place where trainers meet their middleware. Of a run that was Interrupted there is an Outcome too, if a step was whole.
func Run(s Spec) (*Outcome, error) { return (&job{Spec: &s}).outcome() }

func (j *job) outcome() (*Outcome, error) {
	o, err := j.run()
	if err != nil {
		return o, err
	}
	return o, j.reportNonFinite(o)
}

// run runs every rank to the end and returns what they left.
func (j *job) run() (*Outcome, error) {
	if err := j.Check(); err != nil {
		return nil, err
	}
	corpus, err := j.Config.Corpus()
	if err != nil {
		return nil, err
	}
	world := parallel.NewWorld(j.Layout, j.Config.Cluster.RanksPerNode)
	out, err := j.outputs(world, corpus)
	if err != nil {
		return nil, err
	}
	if j.Begin != nil {
		j.Begin()
	}
	ranks := make([]*session, world.World())
	err = j.blame(j.steps(world, corpus, out, ranks), ranks)
	whole := wholeSteps(ranks)
	interrupted := err == nil && ranks[0].trainer.Done() < j.until()
	switch {
	case interrupted && whole == 0:
		err = &Interrupted{}
	case err == nil:
		err = out.complete(ranks[0].trainer.Done(), faulted(ranks))
	}
	if err != nil {
		out.abandon(whole)
		return nil, err
	}
	o := merge(ranks)
	o.Unigram, o.Resharded, o.Notes = corpus.Unigram(), j.resharded(ranks), j.notes(o)
	if interrupted {
		out.export.Release()
		return o, j.interrupted(ranks[0].trainer.Done())
	}
	if j.Strict {
		o.Missed = j.missed(ranks)
	}
	if j.Export != "" {
		gatherMasters(ranks)
	}
	return o, out.exports(ranks[0].trainer.Model)
}

// steps assembles the ranks and runs their steps.
func (j *job) steps(world *parallel.World, corpus *data.Corpus, out *outputs, ranks []*session) error {
	if len(j.Faults) > 0 || j.given != "" {
		world.Crash = func(rank int, p any) error { return crashed(ranks[rank], p) }
	}
	gate := newGate(j.Interrupt)
	return world.Run(func(r parallel.Rank) error {
		run, err := j.begin(r, out.tracer(r.Index))
		if ranks[r.Index] = run; err != nil {
			return err
		}
		if err := run.assemble(j, r, corpus); err != nil {
			return err
		}
		return run.loop(j.Spec, r.Index, out.saver, gate)
	})
}

// wholeSteps is the number of steps that every rank has whole.
func wholeSteps(ranks []*session) int {
	whole := math.MaxInt
	for _, r := range ranks {
		if r == nil {
			return 0
		}
		whole = min(whole, len(r.outcome.Steps))
	}
	return whole
}

// until is the last step of the run.
func (s *Spec) until() int {
	if s.Until > 0 {
		return min(s.Config.Steps, s.Until)
	}
	return s.Config.Steps
}

// gatherMasters gives the first rank every master of a run that has ended: each rank has those of its own segments only.
func gatherMasters(ranks []*session) {
	to := map[string]*device.Tensor{}
	for _, p := range ranks[0].trainer.Model.Params() {
		to[p.Name] = p.Master
	}
	for _, r := range ranks[1:] {
		for _, s := range r.trainer.States(func(r state.Role) bool { return r == state.Master }) {
			to[s.Of].CopyAt(s.Place.Lo, s.Tensor)
		}
	}
}

// begin chains memory(trace(tune(inject(run)))) around the device of a rank.
func (j *job) begin(rank parallel.Rank, tracer *trace.Tracer) (*session, error) {
	c, err := j.choices()
	if err != nil {
		return nil, err
	}
	c.tuner.Rank = rank.Index
	if c.injector.Rank, c.injector.At = rank.Index, j.Layout.At(rank.Index); len(c.injector.Faults) > 0 {
		c.injector.Ranks, c.injector.Groups = j.grid().Ranks, rank.World.Groups()
	}
	run := &session{choices: c, tracer: tracer, outcome: &Outcome{}}
	chain := []device.Middleware{c.injector.Memory}
	if j.doubts(run); j.refused != nil {
		chain = append(chain, j.sharing(run, rank.Index))
	}
	if j.Watch != nil {
		chain = append(chain, j.Watch(rank.Index))
	}
	if tracer != nil {
		tracer.Lens, c.injector.Watched = c.injector.Lens(), tracer.Wants
		chain = append(chain, tracer.Middleware)
	}
	chain = append(chain, c.tuner.Middleware, c.injector.Middleware)
	if j.Routes {
		chain = append(chain, run.outcome.observe(rank.Index))
	}
	if j.Load {
		chain = append(chain, run.outcome.count)
	}
	if j.inner != nil {
		chain = append(chain, j.inner(rank.Index))
	}
	run.device = device.New(device.Options{Rank: rank.Index, At: j.Layout.At(rank.Index), Schedule: j.Schedule, Library: j.Library}, chain...)
	return run, nil
}

// assemble builds the trainer on the device, and has it go on from a checkpoint if the run does.
func (r *session) assemble(j *job, rank parallel.Rank, corpus *data.Corpus) (err error) {
	if r.trainer, err = train.NewRank(j.Config, corpus, r.device, rank, j.Recipe == tune.Canonical); err != nil {
		return err
	}
	r.trainer.Digest = j.Digest || j.Trace.Level > trace.Off
	r.injector.Begin(r.device, r.trainer.States(func(r state.Role) bool { return r == state.RandomStream }))
	if r.tracer != nil {
		if j.Trace.Parts {
			r.tracer.Place = r.trainer.Places().Of
		}
		r.trainer.StateAt = r.tracer.WantsState
		r.trainer.ReadAt = func(step int) bool { return r.tracer.ReadsState(step, j.until()) }
	}
	if j.resumed != nil {
		if err := r.restore(j.resumed, j.whole, rank.Index); err != nil {
			return err
		}
	}
	return r.err()
}

func (r *session) loop(s *Spec, rank int, saver *checkpoint.Saver, gate *gate) error {
	if err := r.endTrace(); err != nil { // of the initialisation, or of the restore
		return err
	}
	until, saved := s.until(), true
	for n := 1; r.trainer.Done() < until && gate.begin(n); n++ {
		step := r.trainer.Step()
		if err := r.err(); err != nil { // a plan or fault that does not fit what it names
			return err
		}
		if err := r.endTrace(); err != nil {
			return err
		}
		if saved = s.Save.at(step.Step, until); saved && saver != nil {
			if err := saver.Put(rank, step.Step, r.trainer.Save()); err != nil {
				return err
			}
		}
		if err := r.ended(s, rank, step); err != nil {
			return err
		}
	}
	if saver != nil && !saved { // the run is interrupted
		return saver.Put(rank, r.trainer.Done(), r.trainer.Save())
	}
	return nil
}

// endTrace ends the trace's file of a step: what cannot be written is known then, not when a buffer is full.
func (r *session) endTrace() error {
	if r.tracer == nil {
		return nil
	}
	return r.tracer.EndStep()
}

// ended keeps what a step left, and shows it.
func (r *session) ended(s *Spec, rank int, step train.Result) error {
	o := r.outcome
	if s.Elements {
		r.held = append(r.held, pieces(r.trainer))
	}
	if s.EachRank != nil {
		if err := s.EachRank(rank, r.trainer, step); err != nil {
			return err
		}
	}
	if rank > 0 {
		step.Metrics = nil // they are those of the first rank
	}
	o.Steps = append(o.Steps, step)
	if s.Each != nil && rank == 0 {
		return s.Each(step)
	}
	return nil
}

func (r *session) err() error {
	if err := cmp.Or(r.refused, r.tuner.Err(), r.device.Err()); err != nil {
		return err
	}
	for _, f := range r.injector.Faults {
		if err := f.Err(); err != nil {
			return err
		}
	}
	return nil
}

// merge makes one outcome of the ranks': metrics are the first's, faults count together, the state
// is a fingerprint of all ranks', and what was watched comes step by step, rank by rank.
func merge(ranks []*session) *Outcome {
	o := ranks[0].outcome
	o.Faults = faulted(ranks)
	for i, r := range ranks {
		if i > 0 {
			o.addNonFinite(i, r.outcome.Steps)
			o.Routes = append(o.Routes, r.outcome.Routes...)
			o.addLoad(r.outcome.Load)
		}
	}
	for step := range ranks[0].held {
		o.Elements = append(o.Elements, elements(ranks, step))
	}
	slices.SortStableFunc(o.Routes, func(a, b Routes) int { return cmp.Or(a.Step-b.Step, a.Micro-b.Micro) })
	if len(ranks) > 1 {
		for i := range o.Steps {
			if o.Steps[i].State == "" {
				continue
			}
			h := xxh3.New()
			for _, r := range ranks {
				_, _ = h.WriteString(r.outcome.Steps[i].State) // a hash does not fail
			}
			sum := h.Sum128().Bytes()
			o.Steps[i].State = hex.EncodeToString(sum[:])
		}
	}
	return o
}
