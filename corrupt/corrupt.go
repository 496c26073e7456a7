package corrupt

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"firstbit/device"
	"firstbit/diff"
	"firstbit/rng"
	"firstbit/run"
	"firstbit/trace"
	"firstbit/train"
)

// Options are which faults are drawn.
type Options struct {
	Seed uint64
	N    int
	Done func() // after every fault; nil: nobody counts
}

// healthyRuns are the runs that are broken, each run once it is asked for.
func healthyRuns() (all []func() (traced, error)) {
	for _, layout := range layouts {
		for _, precision := range precisions {
			all = append(all, sync.OnceValues(func() (traced, error) {
				t, _, err := runTraced(world(layout, precision), nil)
				return t, err
			}))
		}
	}
	return all
}

// traced is a run with its trace.
type traced struct {
	spec  run.Spec
	steps []train.Result
	trace *trace.Trace
}

// Run draws faults and tries every finder on each, as many faults at a time as there are processors.
func Run(ctx context.Context, o Options) (*Result, error) {
	worlds := healthyRuns()
	tried := make([]try, o.N)
	next := make(chan int)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := range next {
				tried[i] = one(rng.New(o.Seed, "corrupt", uint64(i)), worlds)
				if o.Done != nil {
					o.Done()
				}
			}
		})
	}
	for i := 0; i < o.N && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return collect(o, tried)
}

// runTraced runs with faults, and returns what no finder may know: how often they left other bits.
func runTraced(s run.Spec, faults []string) (t traced, changed int, err error) {
	t.spec, t.trace = s, &trace.Trace{}
	s.Faults, s.Trace = faults, trace.Options{Level: trace.Op, Into: t.trace}
	o, err := run.Run(s)
	if err != nil {
		return t, 0, err
	}
	t.trace.Dir, t.trace.Run.Faults = "a folder", nil
	delete(t.trace.Raw, "faults")
	t.steps = o.Steps
	for _, f := range o.Faults {
		changed += f.Changed
	}
	return t, changed, nil
}

// try is a fault, and what each finder made of it.
type try struct {
	Fault
	layout, precision string
	found             map[string]finding
	masked            bool // no metric and no state of the run shows it
	harmless, loud    int  // faults that were drawn before it and left the same bits, or ended the run
	err               error

	replayed map[string]train.Result // by what is run
	bisected map[int]bisected        // by step
}

// finding is what a finder says of a run.
type finding struct {
	found   bool
	verdict Verdict // of a rerun
	named   bool    // it names a Call
	site    Site
	replays int
	part    float64
}

const mostDraws = 1000

// one draws a fault that leaves other bits and does not end the run, and has all finders look for it.
func one(d *rng.Stream, worlds []func() (traced, error)) (t try) {
	w, err := worlds[d.Intn(len(worlds))]()
	if t.err = err; err != nil {
		return t
	}
	t.layout, t.precision = w.spec.Layout.String(), w.spec.Config.Precision
	for range mostDraws {
		t.Fault = draw(d, w.trace)
		broken, changed, err := runTraced(w.spec, t.during(steps))
		switch {
		case err != nil:
			t.loud++
		case changed == 0:
			t.harmless++
		default:
			t.masked = true
			for i := range broken.steps {
				t.masked = t.masked && reported(broken.steps[i]) == reported(w.steps[i]) && broken.steps[i].State == w.steps[i].State
			}
			t.err = t.find(&w, &broken)
			return t
		}
	}
	t.err = errors.New("corrupt: no fault was drawn that leaves other bits")
	return t
}

// find asks every finder.
func (t *try) find(w, broken *traced) error {
	t.found, t.replayed, t.bisected = map[string]finding{}, map[string]train.Result{}, map[int]bisected{}
	said := func(name string, r *diff.Report, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f := finding{found: !r.Identical}
		if r.First != nil {
			f.named, f.site = true, Site{r.First.Rank, r.First.Phase, r.First.Path()}
		}
		t.found[name] = f
		return nil
	}
	r, err := diff.Replicas(broken.trace)
	if err := said(replicas, r, err); err != nil {
		return err
	}
	r, err = diff.Compare(w.trace, broken.trace)
	if err := said(secondRun, r, err); err != nil {
		return err
	}
	always := func(int) bool { return true }
	state := func(r train.Result) string { return reported(r) + r.State }
	for _, f := range []finder{
		{rerunSuspicious, func(i int) bool { return suspicious(broken.steps, i) }, reported, false},
		{rerunByLoss, always, reported, false},
		{rerunByState, always, state, false},
		{rerunDigests, always, state, true},
	} {
		found, err := t.rerun(w.spec, broken, f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		t.found[f.name] = found
	}
	return nil
}

// finder says where a run went wrong, from its steps and their reruns.
type finder struct {
	name    string
	when    func(i int) bool // which steps are rerun
	by      func(train.Result) string
	digests bool // of every Call, of the run and of the rerun
}

// rerun reruns the steps of a run at which a finder does, until one is not correct. Without digests it finds the Call of what lasts by replays, and that
// of what does not last never.
func (t *try) rerun(s run.Spec, broken *traced, by finder) (f finding, err error) {
	for i, result := range broken.steps {
		step := i + 1
		if !by.when(i) {
			continue
		}
		here, elsewhere := s, s
		elsewhere.Faults = t.during(step - 1) // what went wrong before is in the state that it begins with
		here.Faults = elsewhere.Faults
		if t.Lasting {
			here.Faults = t.during(step)
		}
		of := func(s run.Spec) func() (string, error) {
			return func() (string, error) {
				r, err := t.replay(s, step)
				return by.by(r), err
			}
		}
		v, err := attribute(by.by(result), of(here), of(elsewhere))
		if err != nil {
			return f, err
		}
		if v == Correct {
			continue
		}
		f.found, f.verdict = true, v
		switch {
		case by.digests:
			err = f.compare(elsewhere, broken.trace, step)
		case v == Persistent:
			var b bisected
			b, err = t.bisect(here, elsewhere, step)
			f.named, f.site, f.replays, f.part = b.ok, b.site, b.replays, b.part
		}
		return f, err
	}
	return f, nil
}

// compare names the Call at which a step of a run and its rerun part, from the digests of both.
func (f *finding) compare(again run.Spec, t *trace.Trace, step int) error {
	with := trace.Options{Level: trace.Op, Steps: trace.Set{{Lo: step, Hi: step}}, Into: &trace.Trace{}}
	again.Until, again.Trace = step, with
	if _, err := run.Run(again); err != nil {
		return err
	}
	with.Into.Run.Faults = nil
	delete(with.Into.Raw, "faults")
	r, err := diff.Compare(with.Into, t)
	if err == nil && r.First != nil {
		f.named, f.site = true, Site{r.First.Rank, r.First.Phase, r.First.Path()}
	}
	return err
}

// replay runs to a step again, from the beginning, under another schedule: from a checkpoint of the step before it would be the same. What one finder has
// run is kept for the others.
func (t *try) replay(s run.Spec, step int) (r train.Result, err error) {
	key := fmt.Sprint(step, s.Faults)
	if r, ok := t.replayed[key]; ok {
		return r, nil
	}
	s.Until, s.Schedule = step, device.Schedule{Seed: uint64(step)}
	o, err := run.Run(s)
	if err != nil {
		return r, err
	}
	t.replayed[key] = o.Steps[step-1]
	return t.replayed[key], nil
}

func (t *try) bisect(here, elsewhere run.Spec, step int) (b bisected, err error) {
	if b, ok := t.bisected[step]; ok {
		return b, nil
	}
	b, err = bisect(here, elsewhere, step)
	t.bisected[step] = b
	return b, err
}
