package tax

import (
	"strings"
	"sync/atomic"
	"time"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/run"
	"firstbit/tune"
)

// Line is what some Calls of a step cost by one form and another.
type Line struct {
	Name  string     `json:"name"`
	Forms []LineForm `json:"forms"`
}

// LineForm is one of a Line's.
type LineForm struct {
	Name   string  `json:"form"`
	Micros float64 `json:"microseconds"` // a step, over all Calls of the line and all ranks, the median

	Estimate // beside the first form of the line, which has none
}

// variant is a run whose Calls are timed.
type variant int

const (
	fixed variant = iota
	atomically
	inTurn
	locally
	stolen
	poisoned // every output is filled with NaN before its Call
	unfilled // what poisoned takes without filling
	unfused
	sequence // the load-balancing loss is of each sequence, which canonical demands
	canonical
	variants
)

// line says which Calls, and which variants in which words.
type line struct {
	name  string
	of    func(c *device.Call) bool // nil: all
	forms []wording
}

type wording struct {
	variant variant
	name    string
}

var (
	shared = []wording{{atomically, "atomic"}, {locally, "worker-local"}, {stolen, "work stealing"}, {inTurn, "serialised writers"}, {fixed, "fixed order"}}

	lines = []line{
		{"grouped GEMM with its epilogue", func(c *device.Call) bool { return c.Plan.Has("tiles") },
			[]wording{{atomically, "atomic"}, {inTurn, "serialised writers"}, {fixed, "private slots, fixed tree"}}},
		{"gradients of weights, products", func(c *device.Call) bool { return c.Kernel.Name == productKernel }, shared},
		{"gradients of experts", func(c *device.Call) bool { return c.Kernel.Name == "grouped_gemm.wgrad" }, shared},
		{"sums over rows, of norms and convolutions", func(c *device.Call) bool {
			return c.Plan.Has("rows") && !c.Plan.Has("experts") && c.Kernel.Name != "grouped_gemm.wgrad"
		}, shared},
		{"gradient of the embedding", func(c *device.Call) bool { return c.Plan.Has("tokens") }, shared},
		{"rows of experts to tokens", func(c *device.Call) bool { return c.Kernel.Name == "combine" }, shared},
		{"MLP of the experts", func(c *device.Call) bool { return strings.HasSuffix(c.Scope, ".experts") }, []wording{{fixed, "fused"}, {unfused, "unfused"}}},
		{"buffer fill, of a step", nil, []wording{{unfilled, "none"}, {poisoned, "NaN before every Call"}}},
		{"canonical recipe, of a step", nil, []wording{{sequence, "fixed"}, {canonical, "canonical"}}},
	}
)

// sides are the variants of a run; a race is of all sums.
func (o Options) sides(calls []run.CallKind) (all [variants]run.Spec) {
	for v := range all {
		all[v] = o.Spec
	}
	for v, race := range map[variant]kernel.Race{atomically: kernel.Atomic, inTurn: kernel.Turns, locally: kernel.Local, stolen: kernel.Steal} { // order reaches nothing
		w := way{race: race, cuts: 8, sums: every}
		if race == kernel.Atomic {
			w.cuts = 4
		}
		all[v] = w.spec(o.Spec, calls)
	}
	all[unfused].Config.Model.MoE.Unfused = true
	all[sequence].Config.Model.MoE.Aux, all[canonical].Config.Model.MoE.Aux = "sequence", "sequence"
	all[canonical].Recipe = tune.Canonical
	return all
}

// lines measures every line that the run has Calls of. A variant that the configuration excludes has no form.
func (o Options) lines(calls []run.CallKind) ([]Line, error) {
	var watched []run.Spec
	var clocks [variants]*clock
	for v, s := range o.sides(calls) {
		if s.Check() != nil || variant(v) == unfilled { // canonical, of what it refuses
			continue
		}
		c := &clock{poisons: variant(v) == poisoned, steps: make([][]time.Duration, len(lines))}
		s.Watch = c.watch
		watched, clocks[v] = append(watched, s), c
	}
	var shown []*clock
	for _, c := range clocks {
		if c != nil {
			shown = append(shown, c)
		}
	}
	if err := o.timed(watched, shown); err != nil {
		return nil, err
	}
	clocks[unfilled] = clocks[poisoned].unfilled()
	found := []Line{}
	for i, l := range lines {
		if line := l.read(i, &clocks); len(line.Forms) > 1 {
			found = append(found, line)
		}
	}
	return found, nil
}

// timed has runs take their steps in turn and their clocks keep what each step's Calls took.
func (o Options) timed(sides []run.Spec, clocks []*clock) error {
	took, err := o.interleaved(sides, func(i int, counts bool) { clocks[i].keep(counts) })
	for i, c := range clocks {
		for l := range lines {
			if lines[l].of == nil && err == nil {
				c.steps[l] = took[i]
			}
		}
	}
	return err
}

// read makes the line of what the clocks keep.
func (l line) read(i int, clocks *[variants]*clock) Line {
	line := Line{Name: l.name}
	var first []time.Duration
	for _, f := range l.forms {
		c := clocks[f.variant]
		if c == nil || len(c.steps[i]) == 0 || median(c.steps[i]) == 0 {
			continue
		}
		if first == nil {
			first = c.steps[i]
		}
		line.Forms = append(line.Forms, LineForm{f.name, float64(median(c.steps[i])) / 1e3, estimate(ratios(c.steps[i], first))})
	}
	return line
}

// clock times the Calls of a run by line.
type clock struct {
	poisons bool
	now     [16]atomic.Int64 // nanoseconds of the step at hand, by line
	steps   [][]time.Duration

	filled atomic.Int64 // nanoseconds of the step at hand
	fills  []time.Duration
}

// unfilled is the clock of the same run less what it took to fill.
func (k *clock) unfilled() *clock {
	u := &clock{steps: make([][]time.Duration, len(lines))}
	for l := range lines {
		for i, took := range k.steps[l] {
			if lines[l].of == nil {
				u.steps[l] = append(u.steps[l], took-k.fills[i])
			}
		}
	}
	return u
}

func (k *clock) watch(int) device.Middleware {
	of := map[*device.Call][]int{} // lines of each Call
	return func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			which, known := of[c]
			if !known {
				which = linesOf(c)
				of[c] = which
			}
			if k.poisons {
				start := time.Now()
				c.Poison()
				k.filled.Add(int64(time.Since(start)))
			}
			if len(which) == 0 {
				next(c)
				return
			}
			start := time.Now()
			next(c)
			took := int64(time.Since(start))
			for _, l := range which {
				k.now[l].Add(took)
			}
		}
	}
}

// linesOf are the lines that a Call belongs to.
func linesOf(c *device.Call) (of []int) {
	for i, l := range lines {
		if l.of != nil && l.of(c) {
			of = append(of, i)
		}
	}
	return of
}

// keep ends a step, and keeps what it took if that counts.
func (k *clock) keep(counts bool) {
	if filled := k.filled.Swap(0); counts {
		k.fills = append(k.fills, time.Duration(filled))
	}
	for l := range lines {
		if took := k.now[l].Swap(0); counts && lines[l].of != nil {
			k.steps[l] = append(k.steps[l], time.Duration(took))
		}
	}
}
