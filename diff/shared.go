package diff

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"firstbit/trace"
)

// Shared says over what two traces were compared: steps that both hold, of those that either does, and of one layout ranks.
type Shared struct {
	Steps   int `json:"steps"`
	Of      int `json:"of"`
	Ranks   int `json:"ranks,omitempty"`
	OfRanks int `json:"of_ranks,omitempty"`
}

// window is the steps that two traces both hold.
type window struct {
	steps   map[int]bool // 0, the initialisation, among them if both show it
	unequal bool         // they do not begin with the same step: only one of them shows the states there
}

// commonWindow finds the steps that both traces hold. None is no agreement.
func commonWindow(a, b *trace.Trace) (*window, Shared, error) {
	inA, inB := stepsOf(a), stepsOf(b)
	w := &window{steps: map[int]bool{}}
	for _, step := range inA {
		if _, both := slices.BinarySearch(inB, step); both {
			w.steps[step] = true
		}
	}
	inA, inB = trained(inA), trained(inB)
	s := Shared{Steps: len(w.steps)}
	if w.steps[0] {
		s.Steps--
	}
	s.Of = len(inA) + len(inB) - s.Steps
	if s.Of > 0 && s.Steps == 0 {
		return nil, s, NotComparable{fmt.Sprintf("the traces have no step in common: A holds %s, B holds %s", textOf(inA), textOf(inB))}
	}
	w.unequal = s.Of > 0 && inA[0] != inB[0]
	return w, s, nil
}

// trained is steps without the initialisation.
func trained(steps []int) []int {
	if len(steps) > 0 && steps[0] == 0 {
		return steps[1:]
	}
	return steps
}

// stepsOf is the steps of a trace, ascending, the initialisation among them. Where a restore stands, a step may not.
func stepsOf(t *trace.Trace) []int {
	has := map[int]bool{}
	for _, r := range t.Ranks {
		for i := range r.Records {
			if r.Records[i].Phase != "load" {
				has[r.Records[i].Iteration] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(has))
}

// addRanks counts the ranks of two traces of one layout.
func (s *Shared) addRanks(a, b *trace.Trace) {
	for _, r := range a.Ranks {
		if slices.ContainsFunc(b.Ranks, func(o trace.Rank) bool { return o.Rank == r.Rank }) {
			s.Ranks++
		}
	}
	s.OfRanks = len(a.Ranks) + len(b.Ranks) - s.Ranks
}

func textOf(steps []int) string {
	switch n := len(steps); n {
	case 0:
		return "none"
	case 1:
		return fmt.Sprint(steps[0])
	default:
		return fmt.Sprintf("%d to %d", steps[0], steps[n-1])
	}
}

// of is the records of the window: its steps and restores, and of the states, which a trace shows at its first step, what both show.
func (w *window) of(records []trace.Record) []trace.Record {
	outside := func(r trace.Record) bool { return r.Phase != "load" && !w.steps[r.Iteration] }
	if !w.unequal && !slices.ContainsFunc(records, outside) {
		return records
	}
	kept := records[:0:0]
	for _, r := range records {
		if outside(r) || w.unequal && r.Kind == "state" {
			continue
		}
		kept = append(kept, r)
	}
	return kept
}

// broken tells whether some step between two others is outside of the window.
func (w *window) broken(from, to int) bool {
	for step := from + 1; step < to; step++ {
		if !w.steps[step] {
			return true
		}
	}
	return false
}

// truncatedText says which of these traces were cut short; nil: none was.
func truncatedText(traces ...*trace.Trace) *string {
	var parts []string
	for _, t := range traces {
		if t.Truncated {
			parts = append(parts, fmt.Sprintf("trace %s was cut short: its last whole step is %d", t.Dir, t.Whole))
		}
	}
	if parts == nil {
		return nil
	}
	text := strings.Join(parts, "; ")
	return &text
}

// Unknown tells that nothing was found different and that there is more than was looked at: a trace was cut short.
func (r *Report) Unknown() bool { return !r.Identical && r.First == nil }

// end settles a comparison in which nothing differs: of traces that were cut short that says nothing about the rest.
func (r *Report) end() *Report {
	if r.First == nil && r.Truncated != nil {
		r.Identical = false
	}
	return r
}
