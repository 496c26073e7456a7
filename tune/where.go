package tune

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"firstbit/device"
	"firstbit/spell"
	"firstbit/trace"
)

// Where says at which places of a run a policy or a fault acts: steps, microbatches, phases, and ranks by number or by coordinates.
type Where struct {
	Steps trace.Set
	Micro int // or Every
	Phase device.Phase
	Rank  int          // or Every
	At    device.Coord // of the rank, each an index or Every
	First bool         // without a rank and a coordinate: on the first rank, not on all
}

// Every stands for all microbatches, ranks and indices of an axis.
const Every = -1

// What Where.Phase holds besides a phase.
const (
	EveryPhase device.Phase = math.MaxUint8 - iota
	StepPhases              // all but initialisation and restore
)

// Most bounds ranks, and microbatches of a step.
const Most = 1 << 20

// Everywhere is every place, in such phases.
func Everywhere(phase device.Phase) Where {
	return Where{Micro: Every, Phase: phase, Rank: Every, At: device.Coord{PP: Every, DP: Every, TP: Every, CP: Every, EP: Every}}
}

// Key is a word KEY=VALUE by which a user says where.
type Key struct {
	Name, Value string // as documented
	Take        func(value string) error
	Text        func() string // as Take reads it; empty: the default, which is what the Where held when it was asked for its Keys
}

// axis is one coordinate.
type axis struct {
	name string
	at   *int
}

func (w *Where) axes() []axis {
	c := &w.At
	return []axis{{"tp", &c.TP}, {"dp", &c.DP}, {"pp", &c.PP}, {"cp", &c.CP}, {"ep", &c.EP}}
}

// Keys are the words of w.
func (w *Where) Keys() []Key {
	keys := []Key{
		{"step", "SET", func(value string) (err error) { w.Steps, err = trace.ParseSet(value); return err }, func() string { return w.Steps.String() }},
		Number("micro", "M", &w.Micro, 0, Most), w.phase(), w.rank(),
	}
	for _, a := range w.axes() {
		keys = append(keys, Number(a.name, "I", a.at, 0, Most))
	}
	return keys
}

// rank says nothing of the first one where that is understood.
func (w *Where) rank() Key {
	k := Number("rank", "R", &w.Rank, 0, Most)
	text := k.Text
	k.Text = func() string {
		if w.First && w.Rank == 0 && !w.located() {
			return ""
		}
		return text()
	}
	return k
}

func (w *Where) phase() Key {
	usual := w.Phase
	return Key{"phase", "P", func(value string) error {
		p, ok := device.ParsePhase(value)
		if !ok {
			return fmt.Errorf("%q: %s", value, spell.OneOf(value, device.PhaseNames()))
		}
		w.Phase = p
		return nil
	}, func() string {
		if w.Phase == usual {
			return ""
		}
		return w.Phase.String()
	}}
}

// Number is a whole number from least to most.
func Number(key, value string, n *int, least, most int) Key {
	usual := *n
	return Key{key, value, func(value string) error {
		v, err := strconv.Atoi(value)
		if err != nil || v < least || v > most {
			return fmt.Errorf("%q: must be a number from %d to %d", value, least, most)
		}
		*n = v
		return nil
	}, func() string {
		if *n == usual {
			return ""
		}
		return strconv.Itoa(*n)
	}}
}

// located tells whether a coordinate is given.
func (w *Where) located() bool {
	return slices.ContainsFunc(w.axes(), func(a axis) bool { return *a.at != Every })
}

// always tells whether all steps and microbatches are meant.
func (w *Where) always() bool { return w.Micro == Every && w.Steps == nil }

// ofRanks tells whether some ranks are meant and others not.
func (w *Where) ofRanks() bool { return w.Rank != Every || w.First || w.located() }

// OnRank tells whether a rank at a place on the grid is meant.
func (w *Where) OnRank(rank int, at device.Coord) bool {
	if w.First && w.Rank == Every && !w.located() {
		return rank == 0
	}
	is := func(want, have int) bool { return want == Every || want == have }
	c := w.At
	return is(w.Rank, rank) && is(c.PP, at.PP) && is(c.DP, at.DP) && is(c.TP, at.TP) && is(c.CP, at.CP) && is(c.EP, at.EP)
}

// InPhase tells whether a phase is meant.
func (w *Where) InPhase(p device.Phase) bool {
	return w.Phase == p || w.Phase == EveryPhase || w.Phase == StepPhases && p != device.Init && p != device.Load
}

// Now tells whether a Call runs in a step and a microbatch that are meant.
func (w *Where) Now(c *device.Call) bool {
	return (w.Micro == Every || w.Micro == c.ID.Micro) && w.Steps.Has(c.ID.Step)
}

// Grid is the ranks of a run, and what a step of it has.
type Grid struct {
	Layout string
	Ranks  []device.Coord // by rank
	Micro  int            // microbatches of a rank in a step
}

// Check refuses ranks and microbatches that a run does not have.
func (w *Where) Check(g Grid) error {
	switch {
	case w.Rank >= len(g.Ranks):
		return fmt.Errorf("rank: %d: must be from 0 to %d, the ranks of layout %q", w.Rank, len(g.Ranks)-1, g.Layout)
	case w.Micro >= g.Micro:
		return fmt.Errorf("micro: %d: must be from 0 to %d, the microbatches that a rank has in a step", w.Micro, g.Micro-1)
	}
	for rank, at := range g.Ranks {
		if w.OnRank(rank, at) {
			return nil
		}
	}
	return fmt.Errorf("%s: no rank of layout %q is there", w.RankText(), g.Layout)
}

// RankText is the rank as it was given.
func (w *Where) RankText() string {
	var words []string
	switch {
	case w.Rank != Every:
		words = append(words, fmt.Sprintf("rank %d", w.Rank))
	case w.First && !w.located():
		words = append(words, "rank 0")
	}
	for _, a := range w.axes() {
		if *a.at != Every {
			words = append(words, fmt.Sprintf("%s=%d", a.name, *a.at))
		}
	}
	return strings.Join(words, " ")
}

// CheckSteps refuses steps that are not in a run from step first to step last.
func (w *Where) CheckSteps(first, last int) error {
	if !w.Steps.Within(first, last) {
		return fmt.Errorf("step: must be from %d to %d, the steps of the run", first, last)
	}
	return nil
}
