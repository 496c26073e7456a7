package inject

import (
	"math"
	"slices"

	"github.com/tidwall/match"

	"firstbit/device"
	"firstbit/trace"
)

// Selector says on which Calls of which ranks a fault acts.
type Selector struct {
	Globs []string // each of which must occur; a Call has one of the names
	Steps trace.Set
	Rank  int // or every
	Micro int // or every
	Phase device.Phase
	Rest  bool // in memory after the Call, not on the kernel's write
}

// What a selector holds where all are selected.
const (
	every      = -1
	everyPhase = device.Phase(math.MaxUint8)
)

// EveryPhase tells whether Calls of all phases are selected.
func (s *Selector) EveryPhase() bool { return s.Phase == everyPhase }

func (s *Selector) onRank(rank int) bool { return s.Rank == every || s.Rank == rank }

func (s *Selector) inPhase(p device.Phase) bool { return s.EveryPhase() || s.Phase == p }

// names tells whether a GLOB names a Call.
func (s *Selector) names(c *device.Call) bool { return slices.ContainsFunc(s.Globs, c.Matches) }

// Names tells whether a GLOB names a state.
func (s *Selector) Names(state string) bool {
	return slices.ContainsFunc(s.Globs, func(glob string) bool { return match.Match(state, glob) })
}

// now tells whether a Call runs in the selected steps and microbatches.
func (s *Selector) now(c *device.Call) bool {
	return (s.Micro == every || s.Micro == c.ID.Micro) && s.Steps.Has(c.ID.Step)
}
