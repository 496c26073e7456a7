package corrupt

import (
	"math"

	"firstbit/train"
)

// Verdict is what rerunning a step says of its result.
type Verdict string

// The verdicts.
const (
	Transient  Verdict = "transient"  // the same place does not repeat it
	Persistent Verdict = "persistent" // the same place repeats it, and another does not
	Correct    Verdict = "correct"    // the same everywhere
)

// attribute runs a step again, in place and, if that repeats the result, elsewhere.
//
// Source: Megatron Core, rerun_state_machine.
func attribute(r string, inPlace, elsewhere func() (string, error)) (Verdict, error) {
	again, err := inPlace()
	if err != nil || again != r {
		return Transient, err
	}
	there, err := elsewhere()
	if err != nil || there != r {
		return Persistent, err
	}
	return Correct, nil
}

// suspicious tells whether a trainer would rerun a step for its loss alone: it is no number, or ten times the largest before it, which are the
// defaults of the source.
func suspicious(steps []train.Result, i int) bool {
	const spike = 10
	largest := math.Inf(-1)
	for _, s := range steps[:i] {
		largest = max(largest, loss(s))
	}
	l := loss(steps[i])
	return math.IsNaN(l) || math.IsInf(l, 0) || i > 0 && l > spike*largest
}

func loss(r train.Result) float64 {
	for _, m := range r.Metrics {
		if m.Name == "loss" {
			return m.Value
		}
	}
	return 0
}

// bits of what a step reports: its metrics.
func reported(r train.Result) (s string) {
	for _, m := range r.Metrics {
		s += m.Name + " " + m.Bits + "\n"
	}
	return s
}
