// Package report makes one page of a pair of runs: the verdict, where bits differ, the Call at which the runs part, the sum in it, the bits of
// the first element, how they reach the loss, and the routes that flip.
package report

import (
	"cmp"
	"fmt"
	"math"

	"firstbit/diff"
	"firstbit/run"
	"firstbit/trace"
	"firstbit/train"
)

// Page is all that the page shows. Its JSON is embedded in the page.
type Page struct {
	Runs     [2]string     `json:"runs"`     // what makes them: flags of train, or the traces
	Command  string        `json:"command"`  // that makes this page
	Sentence string        `json:"sentence"` // the verdict
	Diff     *diff.Report  `json:"diff"`     // as diff --json and localize --json print it; null: not known yet
	Spread   *diff.Spread  `json:"spread"`   // as spread --json prints it
	Steps    []Step        `json:"steps"`
	Calls    []Call        `json:"calls"` // of the step at which the runs part, on the rank where they do; else of the first step
	Bytes    *diff.Bytes   `json:"bytes"` // the first element that differs: of the verdict, or of the runs run again; null: not known
	Sum      *Sum          `json:"sum"`   // null: the Call adds nothing, or it is not known what
	Chain    []diff.Parted `json:"chain"` // from the root to the loss; empty: not found
	Routes   *Routes       `json:"routes"`
	Missing  []string      `json:"missing"` // what is not shown, and why
}

// Step is one step of both runs.
type Step struct {
	Step  int       `json:"step"`
	Loss  [2]Number `json:"loss"`
	State [2]string `json:"state"` // the fingerprint of all state after it, as train --json prints it; empty: not known
}

// Number is a metric with its bits.
type Number struct {
	Value *float64 `json:"value"` // null where JSON has no number
	Bits  string   `json:"bits"`
}

// Routes are the tokens that take another route.
type Routes struct {
	Of    int     `json:"of"`    // routes of a run
	Flips int     `json:"flips"` // of them
	First []Route `json:"first"` // the first of them, at most maxRoutes
}

const maxRoutes = 100

// Route is the choice of experts for a token in both runs.
type Route struct {
	Step    int          `json:"step"`
	Micro   int          `json:"microbatch"`
	Rank    int          `json:"rank"`
	Layer   string       `json:"layer"`
	Token   int          `json:"token"`
	Margin  uint64       `json:"margin_ulps"` // in run A, of the last expert chosen over the best left out
	Moved   uint64       `json:"moved_ulps"`  // how far run B moved it
	Experts [2][]int32   `json:"experts"`
	Scores  [2][]float64 `json:"scores"` // of every expert
}

// routesOf compares the routes of two runs.
func routesOf(a, b []run.Routes) *Routes {
	found := run.CompareRoutes(a, b)
	r := &Routes{Flips: found.Flips, First: []Route{}}
	at := map[string]int{}
	for i := range a {
		r.Of += a[i].Tokens()
		at[fmt.Sprint(a[i].Step, a[i].Micro, a[i].Rank, a[i].Layer)] = i
	}
	for _, f := range found.All[:min(len(found.All), maxRoutes)] {
		i := at[fmt.Sprint(f.Step, f.Micro, f.Rank, f.Layer)]
		r.First = append(r.First, Route{f.Step, f.Micro, f.Rank, f.Layer, f.Token, f.Margin, f.Moved, [2][]int32{f.A, f.B},
			[2][]float64{a[i].TokenScores(f.Token), b[i].TokenScores(f.Token)}})
	}
	return r
}

// stepsOf are the steps that both runs have.
func stepsOf(a, b []train.Result) []Step {
	steps := []Step{}
	for _, x := range a {
		for _, y := range b {
			if x.Step == y.Step {
				steps = append(steps, Step{x.Step, [2]Number{lossOf(x), lossOf(y)}, [2]string{x.State, y.State}})
			}
		}
	}
	return steps
}

func lossOf(r train.Result) Number {
	for _, m := range r.Metrics {
		if m.Name == "loss" {
			n := Number{Bits: m.Bits}
			if v := m.Value; !math.IsNaN(v) && !math.IsInf(v, 0) {
				n.Value = &v
			}
			return n
		}
	}
	return Number{}
}

// tracedSteps are the steps of two traces that recorded the loss on a rank.
func tracedSteps(a, b *trace.Trace) []Step {
	steps, other := []Step{}, map[int]Number{}
	each := func(t *trace.Trace, do func(step int, n Number)) {
		for _, rank := range t.Ranks[:min(1, len(t.Ranks))] {
			for _, r := range rank.Records {
				if r.Kind == "metric" && r.Name == "loss" {
					do(r.Iteration, Number{r.Value, r.Bits})
				}
			}
		}
	}
	each(b, func(step int, n Number) { other[step] = n })
	each(a, func(step int, n Number) {
		if m, ok := other[step]; ok {
			steps = append(steps, Step{Step: step, Loss: [2]Number{n, m}})
		}
	})
	return steps
}

// say is the verdict in words.
func say(r *diff.Report) string {
	if r.Unknown() {
		return *r.Truncated + "; up to there nothing differs."
	}
	if r.Identical {
		return fmt.Sprintf("The runs have the same bits: %d records are equal.", r.Records)
	}
	f := r.First
	s := fmt.Sprintf("The runs part at step %d in %s, %s, on rank %d: %s", f.Iteration, f.Path(), phases[f.Phase], f.Rank,
		cmp.Or(verdicts[f.Verdict], "the verdict is "+f.Verdict))
	if r.Class != nil {
		s += fmt.Sprintf(" (class %s)", *r.Class)
	}
	if b := r.Bytes; b != nil {
		s += fmt.Sprintf("; %d of %d elements differ, the first by %s", b.Count, b.Of, distance(b))
	}
	return s + "."
}

func distance(b *diff.Bytes) string { return b.Distance()[:len(b.Distance())-len(" apart")] }

var phases = map[string]string{"init": "initialisation", "fwd": "forward", "rec": "recomputation", "bwd": "backward", "opt": "optimizer", "load": "restore"}

var verdicts = map[string]string{
	"origin": "it read the same bits and wrote other ones", "memory": "what it read had changed in memory since it was written",
	"restore": "what was restored is not the same", "missing": "one run has it alone", "narrow": "the root lies in what the traces do not show",
	"outside-window": "it differed already where the traces begin", "artifact": "the bytes there are not meant to be read",
	"blind-spot": "what wrote its input was not captured", "downstream": "another rank brought the difference", "unresolved": "ranks that it depends on were not traced",
}
