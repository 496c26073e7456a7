package inject

import (
	"slices"

	"github.com/tidwall/match"

	"firstbit/device"
	"firstbit/tune"
)

// Selector says on which Calls of which ranks a fault acts.
type Selector struct {
	Globs []string // each of which must occur; a Call has one of the names
	tune.Where
	Rest bool // in memory after the Call, not on the kernel's write
}

// names tells whether a GLOB names a Call.
func (s *Selector) names(c *device.Call) bool { return slices.ContainsFunc(s.Globs, c.Matches) }

// Names tells whether a GLOB names a state.
func (s *Selector) Names(state string) bool {
	return slices.ContainsFunc(s.Globs, func(glob string) bool { return match.Match(state, glob) })
}

// restores tells whether the fault acts on what a run that continues restores.
func (s *Selector) restores() bool { return s.Phase == device.Load }

// timed tells whether a step, a microbatch or a phase is given.
func (s *Selector) timed() bool {
	return len(s.Steps) > 0 || s.Micro != tune.Every || s.Phase != tune.StepPhases
}
