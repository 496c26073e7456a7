// Package parallel is simulated ranks: a layout, groups, and collectives.
//
// Ranks are goroutines that compute freely and meet only in collectives. A collective is a
// Call with a Plan like any other: its order of addition over the ranks is a choice.
package parallel

import (
	"fmt"
	"strconv"
	"strings"

	"firstbit/device"
)

// Layout is the extents of the grid of ranks.
type Layout struct {
	DP int // data parallel: every rank has the whole model and its own sequences
}

// MaxRanks bounds a world.
const MaxRanks = 1 << 14

// ParseLayout reads extents of axes, such as dp=8. The empty text is one rank.
func ParseLayout(s string) (Layout, error) {
	l := Layout{DP: 1}
	if s == "" {
		return l, nil
	}
	seen := map[string]bool{}
	for _, item := range strings.Split(s, ",") {
		axis, text, ok := strings.Cut(item, "=")
		if !ok || axis != "dp" {
			return l, fmt.Errorf("layout %q: %q: must be AXIS=N with the axis dp", s, item)
		}
		if seen[axis] {
			return l, fmt.Errorf("layout %q: %s: given twice", s, axis)
		}
		seen[axis] = true
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > MaxRanks {
			return l, fmt.Errorf("layout %q: %s=%s: must be from 1 to %d", s, axis, text, MaxRanks)
		}
		l.DP = n
	}
	return l, nil
}

// String is what ParseLayout reads.
func (l Layout) String() string { return fmt.Sprintf("dp=%d", l.DP) }

// World is the number of ranks.
func (l Layout) World() int { return l.DP }

// At is a rank's place on the grid.
func (l Layout) At(rank int) device.Coord { return device.Coord{DP: rank} }
