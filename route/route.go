// Package route flips one bit of one element of what one Call writes, and follows what comes of it: which Calls differ, how far the scores
// of experts move, and which tokens take another route.
package route

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"firstbit/device"
	"firstbit/diff"
	"firstbit/lowp"
	"firstbit/run"
	"firstbit/trace"
)

// Flip is a bit of an element of the first output of a Call, in one step.
type Flip struct {
	Call  string
	Phase string // of the step; empty: the forward
	Step  int
	Elem  int
	Bit   int
	Rank  int
}

// Fault is the flip in the words of train --inject.
func (f Flip) Fault() string {
	phase := cmp.Or(f.Phase, device.Fwd.String())
	return fmt.Sprintf("flip@%s step=%d phase=%s rank=%d elem=%d bit=%d", f.Call, f.Step, phase, f.Rank, f.Elem, f.Bit)
}

// First is the first token to take another route.
type First struct {
	Step   int     `json:"step"`
	Layer  string  `json:"layer"` // scope of its router
	Token  int     `json:"token"` // of the rank's microbatch
	Rank   int     `json:"rank"`
	Micro  int     `json:"microbatch"`
	Before []int32 `json:"before"` // its experts without the flip
	After  []int32 `json:"after"`
	Kth    float64 `json:"kth"`  // the score of its last expert, without the flip
	Left   float64 `json:"left"` // and of the best one left out
	Margin uint64  `json:"margin_ulps"`
	Moved  uint64  `json:"moved_ulps"`
}

// Step is what one step shows.
type Step struct {
	Step  int `json:"step"`
	Flips int `json:"flips"`
	Of    int `json:"of"` // routes: tokens times layers times microbatches
	// Moved is the median over tokens of how far the flip moved the margin of a token, in ulps of the score.
	Moved uint64 `json:"moved_ulps"`
	// Calls is how many of them wrote other bits; nil: nobody looked.
	Calls *diff.Cell `json:"calls,omitempty"`
}

// Result is what became of a flip.
type Result struct {
	Flip    string         `json:"flip"` // as train --inject takes it
	Bits    diff.Bytes     `json:"bits"` // of the element, before and after
	Flips   int            `json:"flips"`
	Routes  int            `json:"routes"` // that were compared
	First   *First         `json:"first"`
	ByStep  []Step         `json:"by_step"`
	ByLayer map[string]int `json:"by_layer"`
	ByRank  map[int]int    `json:"by_rank"`
	Margins Margins        `json:"margins_ulps"`
	Sweep   []Point        `json:"sweep"`
	spread  *diff.Spread
}

// Margins are quantiles, over the choices of a healthy run, of the distance in ulps between the last expert chosen and the best left out.
type Margins struct {
	Least uint64 `json:"least"`
	P01   uint64 `json:"p01"`
	P10   uint64 `json:"p10"`
	P50   uint64 `json:"p50"`
}

// Point is one value of a sweep.
type Point struct {
	Value     string  `json:"value"`
	FirstStep *int    `json:"first_step"`
	Flips     int     `json:"flips"`
	Routes    int     `json:"routes"`
	Margins   Margins `json:"margins_ulps"`
	Moved     uint64  `json:"moved_ulps"` // in the last step, as in Step
}

// Spread is where the two runs differ, if they were watched.
func (r *Result) Spread() *diff.Spread { return r.spread }

// Run runs a configuration without and with the flip, and watches which Calls differ.
//
// Errors: what the run refuses, and a flip that names no Call, element or bit, in one line.
func Run(spec run.Spec, f Flip) (*Result, error) {
	bits, err := f.bits(spec)
	if err != nil {
		return nil, err
	}
	var traces [2]*trace.Trace
	r, err := pair(spec, f, func(side int) trace.Options {
		traces[side] = &trace.Trace{}
		return trace.Options{Level: trace.Op, Into: traces[side]}
	})
	if err != nil {
		return nil, err
	}
	r.Bits = bits
	if r.spread, err = diff.SpreadOf(traces[0], traces[1]); err != nil {
		return nil, err
	}
	r.count()
	return r, nil
}

// pair runs both sides and compares their routes.
func pair(spec run.Spec, f Flip, watch func(side int) trace.Options) (*Result, error) {
	var out [2]*run.Outcome
	spec.Routes, spec.Strict = true, true
	if err := diff.Both(func(side int) error {
		s := spec
		s.Trace = watch(side)
		if side == 1 {
			s.Faults = append(slices.Clone(s.Faults), f.Fault())
		}
		o, err := run.Run(s)
		if err != nil {
			return err
		}
		out[side] = o
		return o.Missed
	}); err != nil {
		return nil, err
	}
	r := &Result{Flip: f.Fault(), Sweep: []Point{}}
	r.compare(out[0].Routes, out[1].Routes)
	return r, nil
}

func unwatched(int) trace.Options { return trace.Options{} }

// output is what the Call writes in the step of the flip, without it.
func (f Flip) output(spec run.Spec) (run.ExtractedTensor, error) {
	x, err := run.Extract(spec, run.Site{Path: f.Call, Phase: cmp.Or(f.Phase, device.Fwd.String()), Step: f.Step}, f.Rank)
	if err != nil {
		return run.ExtractedTensor{}, err
	}
	for _, c := range x.Ranks {
		if c.Rank == f.Rank && len(c.Out) > 0 {
			return c.Out[0], nil
		}
	}
	return run.ExtractedTensor{}, fmt.Errorf("%s: writes nothing on rank %d: must be a Call with an output", f.Call, f.Rank)
}

// bits are those of the element before and after.
func (f Flip) bits(spec run.Spec) (diff.Bytes, error) {
	out, err := f.output(spec)
	if err != nil {
		return diff.Bytes{}, err
	}
	t, err := out.Tensor()
	if err != nil {
		return diff.Bytes{}, err
	}
	width := t.Format.Bits()
	switch {
	case f.Elem < 0 || f.Elem >= t.Len():
		return diff.Bytes{}, fmt.Errorf("elem %d: must be from 0 to %d: %s of %s is %v", f.Elem, t.Len()-1, out.Name, f.Call, out.Shape)
	case f.Bit < 0 || f.Bit >= width:
		return diff.Bytes{}, fmt.Errorf("bit %d: must be from 0 to %d: %s of %s is %s", f.Bit, width-1, out.Name, f.Call, out.Dtype)
	case t.F32() == nil && t.F64() == nil:
		return diff.Bytes{}, fmt.Errorf("%s: writes %s: must be a Call that writes numbers", f.Call, out.Dtype)
	}
	b := diff.Bytes{Output: out.Name, Element: f.Elem, Count: 1, Of: t.Len()}
	if v := t.F64(); v != nil {
		x, y := v[f.Elem], math.Float64frombits(lowp.Bits(v[f.Elem])^1<<f.Bit)
		b.A, b.B, b.ValueA, b.ValueB, b.Ulps = fmt.Sprintf("%016x", lowp.Bits(x)), fmt.Sprintf("%016x", lowp.Bits(y)), fmt.Sprint(x), fmt.Sprint(y), lowp.FP64.CodeUlps(lowp.Bits(x), lowp.Bits(y))
		return b, nil
	}
	x := t.F32()[f.Elem]
	y := t.Format.Decode(t.Format.Encode(x) ^ 1<<f.Bit)
	b.A, b.B = fmt.Sprintf("%0*x", width/4, t.Format.Encode(x)), fmt.Sprintf("%0*x", width/4, t.Format.Encode(y))
	b.ValueA, b.ValueB, b.Ulps = fmt.Sprint(x), fmt.Sprint(y), t.Format.Ulps(x, y)
	return b, nil
}

func (r *Result) compare(a, b []run.Routes) {
	report := run.CompareRoutes(a, b)
	r.Flips, r.ByLayer, r.ByRank, r.ByStep = report.Flips, map[string]int{}, map[int]int{}, []Step{}
	for i, f := range report.All {
		if i == 0 {
			r.First = &First{Step: f.Step, Layer: f.Layer, Token: f.Token, Rank: f.Rank, Micro: f.Micro, Before: f.A, After: f.B,
				Kth: f.Kth, Left: f.Left, Margin: f.Margin, Moved: f.Moved}
		}
		r.ByLayer[f.Layer]++
		r.ByRank[f.Rank]++
		r.step(f.Step).Flips++
	}
	moved, margins := map[int][]uint64{}, []uint64{}
	for i := range min(len(a), len(b)) {
		s := r.step(a[i].Step)
		for t := range a[i].Tokens() {
			if margin, by, ok := run.Margin(&a[i], &b[i], t); ok {
				margins, moved[s.Step] = append(margins, margin), append(moved[s.Step], by)
			}
			s.Of++
		}
	}
	slices.SortFunc(r.ByStep, func(x, y Step) int { return x.Step - y.Step })
	for i := range r.ByStep {
		slices.Sort(moved[r.ByStep[i].Step])
		r.ByStep[i].Moved = quantile(moved[r.ByStep[i].Step], 0.5)
		r.Routes += r.ByStep[i].Of
	}
	slices.Sort(margins)
	r.Margins = Margins{quantile(margins, 0), quantile(margins, 0.01), quantile(margins, 0.1), quantile(margins, 0.5)}
}

func (r *Result) step(n int) *Step {
	i := slices.IndexFunc(r.ByStep, func(s Step) bool { return s.Step == n })
	if i < 0 {
		i, r.ByStep = len(r.ByStep), append(r.ByStep, Step{Step: n})
	}
	return &r.ByStep[i]
}

// count adds how many Calls differ in each step.
func (r *Result) count() {
	for _, s := range r.spread.Steps {
		if s.Step == 0 {
			continue // the initialisation
		}
		cell := &diff.Cell{}
		for _, c := range s.Calls {
			cell.Differs, cell.Of = cell.Differs+c.Differs, cell.Of+c.Of
		}
		r.step(s.Step).Calls = cell
	}
}

// quantile of sorted values; 0 of none.
func quantile(sorted []uint64, q float64) uint64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))] // fits: q is at most 1
}

// point is the result as one of a sweep.
func (r *Result) point(value string) Point {
	p := Point{Value: value, Flips: r.Flips, Routes: r.Routes, Margins: r.Margins}
	if r.First != nil {
		p.FirstStep = &r.First.Step
	}
	if n := len(r.ByStep); n > 0 {
		p.Moved = r.ByStep[n-1].Moved
	}
	return p
}
