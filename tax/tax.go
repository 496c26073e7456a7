// Package tax measures what determinism costs: a deterministic step beside the fastest nondeterministic one of the same batch, layout,
// precision and threads, and what single kernels cost by the one and the other.
package tax

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"firstbit/run"
)

// Options say what is measured.
type Options struct {
	Spec    run.Spec // the deterministic side
	Threads int      // that both sides use
	Pairs   int      // of steps, one of each side, taken in turn
	Runs    int      // of each nondeterministic way, of which two at least must have different bits

	Step func() // called with every step, or run of Runs; nil: nobody counts
}

// Result is the tax and what it was measured against.
type Result struct {
	Percent  float64 `json:"tax_percent"` // deterministic step ÷ nondeterministic step − 1, the median over the pairs
	Lower    float64 `json:"lower_95"`
	Upper    float64 `json:"upper_95"`
	Baseline string  `json:"baseline"` // the fastest of the forms
	Pairs    int     `json:"pairs"`
	Threads  int     `json:"threads"`
	Forms    []Form  `json:"forms"`
	Lines    []Line  `json:"lines"`
}

// Form is a nondeterministic way to train that was tried.
type Form struct {
	Name    string  `json:"name"`
	Threads int     `json:"threads"`
	Millis  float64 `json:"milliseconds"` // of a step, the median

	Estimate // of its step beside the deterministic one

	States int `json:"states"` // different ones after a step, of so many runs
	Runs   int `json:"runs"`
	way    way
}

// varies tells whether the bits of two runs were different.
func (f Form) varies() bool { return f.States > 1 }

// Check says what of the options cannot be.
func (o Options) Check() error {
	switch {
	case o.Threads < 1 || o.Threads > 1024:
		return fmt.Errorf("threads %d: must be from 1 to 1024", o.Threads)
	case o.Pairs < leastPairs || o.Pairs > 10000:
		return fmt.Errorf("pairs %d: must be from %d, below which there is no interval of 95 %%, to 10000", o.Pairs, leastPairs)
	case o.Runs < 2 || o.Runs > 1000:
		return fmt.Errorf("runs %d: must be from 2 to 1000", o.Runs)
	}
	return o.Spec.Check()
}

// warmUp is the number of steps that a run takes before it is measured: storage is made in the first, and gradients come to lie in their place
// in the third.
const warmUp = 4

// Measure measures the tax. Forms are tried on one thread too.
func Measure(o Options) (*Result, error) {
	o.Spec.Config.Steps = 2 * (warmUp + perStart) // more than any run takes; both sides have one learning rate
	s := o.Spec
	s.Deterministic = true // looked at in this run alone: to verify it in every step takes time
	calls, err := run.Calls(s)
	if err != nil {
		return nil, err
	}
	r := &Result{Pairs: o.Pairs, Threads: o.Threads}
	for _, threads := range slices.Compact([]int{1, o.Threads}) {
		forms, err := o.on(threads).forms(calls)
		if err != nil {
			return nil, err
		}
		r.Forms = append(r.Forms, forms...)
	}
	best := fastest(r.Forms, o.Threads)
	if best == nil {
		return nil, errors.New("tax: no way to train had other bits in another run: there is nothing to compare with")
	}
	r.Baseline = best.Name
	took, err := o.interleave([]run.Spec{o.Spec, best.way.spec(o.Spec, calls)})
	if err != nil {
		return nil, err
	}
	e := estimate(ratios(took[0], took[1]))
	r.Percent, r.Lower, r.Upper = e.Percent, e.Lower, e.Upper
	r.Lines, err = o.lines(calls)
	return r, err
}

// on is the measurement on so many threads.
func (o Options) on(threads int) Options {
	o.Threads = threads
	return o
}

func (o Options) count() {
	if o.Step != nil {
		o.Step()
	}
}

// forms are the ways that share any sum of the run, measured beside the deterministic run.
func (o Options) forms(calls []run.CallKind) ([]Form, error) {
	sides, forms := []run.Spec{o.Spec}, []Form{}
	for _, w := range waysOf(calls) {
		s := w.spec(o.Spec, calls)
		states, err := o.states(s)
		if err != nil {
			return nil, err
		}
		sides, forms = append(sides, s), append(forms, Form{Name: w.name, Threads: o.Threads, States: states, Runs: o.Runs, way: w})
	}
	took, err := o.interleave(sides)
	if err != nil {
		return nil, err
	}
	for i := range forms {
		forms[i].Millis = milliseconds(median(took[i+1]))
		forms[i].Estimate = estimate(ratios(took[i+1], took[0]))
	}
	return forms, nil
}

// states is the number of different states that runs of one Spec have after a step.
func (o Options) states(s run.Spec) (int, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(o.Threads))
	s.Digest, s.Until = true, 1
	seen := map[string]bool{}
	for range o.Runs {
		out, err := run.Run(s)
		if err != nil {
			return 0, err
		}
		seen[out.Steps[0].State] = true
		o.count()
	}
	return len(seen), nil
}

// interleave has runs take their steps in turn, Pairs of each, and returns how long each took.
func (o Options) interleave(sides []run.Spec) (took [][]time.Duration, err error) {
	return o.interleaved(sides, func(int, bool) {})
}

// perStart is the number of pairs after which runs begin anew: where storage happens to lie makes a run faster or slower as long as it goes.
const perStart = 10

// interleaved is interleave that tells of every step which side took it, and whether it counts.
func (o Options) interleaved(sides []run.Spec, ended func(side int, counts bool)) (took [][]time.Duration, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(o.Threads))
	took = make([][]time.Duration, len(sides))
	for n := 0; n < o.Pairs; n += perStart {
		if err := o.some(sides, n, min(n+perStart, o.Pairs), took, ended); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// some takes pairs from one to another, of runs that begin with them. Which begins first and which goes first is another each time.
func (o Options) some(sides []run.Spec, from, to int, took [][]time.Duration, ended func(side int, counts bool)) (err error) {
	runs := make([]*steps, len(sides))
	for i := range sides {
		at := (i + from/perStart) % len(sides)
		if runs[at], err = begin(sides[at]); runs[at] != nil {
			defer runs[at].end()
		}
		if err != nil {
			return err
		}
	}
	runtime.GC()
	for n := from + 1 - warmUp; n < to; n++ {
		for i := range runs {
			at := (i + max(n, 0)) % len(runs)
			t, err := runs[at].step()
			if err != nil {
				return err
			}
			ended(at, n >= from)
			if n >= from {
				took[at] = append(took[at], t)
			}
		}
		o.count()
	}
	return nil
}

// fastest is the form on so many threads whose bits vary that takes the least time; nil: none's vary.
func fastest(forms []Form, threads int) (best *Form) {
	for i := range forms {
		f := &forms[i]
		if f.Threads == threads && f.varies() && (best == nil || f.Millis < best.Millis) {
			best = f
		}
	}
	return best
}

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }

// Steps is how often Step is called at most.
func (o Options) Steps() int {
	threads := len(slices.Compact([]int{1, o.Threads}))
	starts := (o.Pairs + perStart - 1) / perStart
	return threads*len(ways)*o.Runs + (threads+2)*(starts*(warmUp-1)+o.Pairs)
}
