package diff

import (
	"slices"

	"firstbit/trace"
)

// Spread says where two runs differ: by step, Call and rank.
type Spread struct {
	Steps []SpreadStep `json:"steps"`
}

// SpreadStep is one step, its Calls in the order in which ranks first ran them.
type SpreadStep struct {
	Step  int          `json:"step"`
	Calls []SpreadCall `json:"calls"`
}

// SpreadCall is what one rank's records of one Call came to in a step: of all phases and microbatches together.
type SpreadCall struct {
	Name    string `json:"name"` // scope and name
	Rank    int    `json:"rank"`
	Differs int    `json:"differs"` // records that wrote other bits, or that one run has alone
	Of      int    `json:"of"`
}

// SpreadOf counts, for each step, Call and rank that both traces have, in how many records the bits written differ. At op level these are
// the Calls; of shallower traces, what they have. What Compare leaves out is left out: other pieces of a state, and what only starts or waits
// where one run overlaps.
//
// Errors: traces whose digests mean different things, of different layouts, or without a step in common.
func SpreadOf(a, b *trace.Trace) (*Spread, error) {
	if err := oneLayout(a, b); err != nil {
		return nil, err
	}
	level, err := commonLevel(a, b)
	if err != nil {
		return nil, err
	}
	w, _, err := commonWindow(a, b)
	if err != nil {
		return nil, err
	}
	alike := &Report{ConfigDifferences: configDifferences(a.Raw, b.Raw)}
	inA, inB := heldIn(a), heldIn(b)
	steps := map[int]*spreadStep{}
	for _, ra := range a.Ranks {
		for _, rb := range b.Ranks {
			if ra.Rank != rb.Rank {
				continue
			}
			ra.Records, rb.Records = alike.overlapAlike(w.of(ra.Records), w.of(rb.Records))
			ra, rb, _ := common(ra, rb)
			ra, rb = samePieces(ra, rb, inA, inB)
			p := align(ra, rb, level)
			for i := range p.a {
				j := p.match[i]
				addSpread(steps, level, &p.a[i], j < 0 || !sigsEqual(p.a[i].Out, p.b[j].Out))
			}
			for _, j := range p.onlyB {
				addSpread(steps, level, &p.b[j], true)
			}
		}
	}
	s := &Spread{Steps: []SpreadStep{}}
	for step, x := range steps { // sorted below
		s.Steps = append(s.Steps, SpreadStep{step, x.calls})
	}
	slices.SortFunc(s.Steps, func(x, y SpreadStep) int { return x.Step - y.Step })
	return s, nil
}

type spreadStep struct {
	at    map[spreadKey]int // in calls
	calls []SpreadCall
}

type spreadKey struct {
	name string
	rank int
}

func addSpread(steps map[int]*spreadStep, level trace.Level, r *trace.Record, differs bool) {
	if !spreads(level, r.Kind) {
		return
	}
	x := steps[r.Iteration]
	if x == nil {
		x = &spreadStep{at: map[spreadKey]int{}}
		steps[r.Iteration] = x
	}
	k := spreadKey{trace.Path(r.Scope, r.Name), r.Rank}
	i, ok := x.at[k]
	if !ok {
		i = len(x.calls)
		x.at[k], x.calls = i, append(x.calls, SpreadCall{Name: k.name, Rank: k.rank})
	}
	x.calls[i].Of++
	if differs {
		x.calls[i].Differs++
	}
}

// spreads tells whether records of a kind are counted. What is inside a Call, and what sums Calls up, would count them twice.
func spreads(level trace.Level, kind string) bool {
	switch kind {
	case "metric":
		return level == trace.Metrics
	case "module":
		return level == trace.Module
	case "kernel":
		return false
	}
	return true
}

// SpreadFirst is where two runs differ first: in the first step that differs, the Call that ran first.
type SpreadFirst struct {
	Step int
	SpreadCall
}

// First is nil where nothing differs. Of several ranks it is the one that had run the fewest Calls of the step by then.
func (s *Spread) First() *SpreadFirst {
	for _, step := range s.Steps {
		var first *SpreadFirst
		run, least := map[int]int{}, 0
		for _, c := range step.Calls {
			run[c.Rank]++
			if c.Differs > 0 && (first == nil || run[c.Rank] < least) {
				first, least = &SpreadFirst{step.Step, c}, run[c.Rank]
			}
		}
		if first != nil {
			return first
		}
	}
	return nil
}
