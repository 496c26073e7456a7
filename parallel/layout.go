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
	"firstbit/spell"
)

// Layout is the extents of the grid of ranks. World = TP·CP·DP·PP, tp fastest, then cp, dp, pp; experts
// fold the ranks of a stage again as etp, ep, and the rest.
type Layout struct {
	TP  int // tensor parallel: every rank has a part of each weight, and outside products a part of the tokens
	CP  int // context parallel: every rank has a part of each sequence
	DP  int // data parallel: every rank has its own sequences
	PP  int // pipeline parallel: every rank has some of the layers
	VPP int // runs of layers of a pipeline rank, interleaved
	EP  int // expert parallel: every rank has some of the experts
	ETP int // tensor parallel inside an expert
}

// MaxRanks bounds a world.
const MaxRanks = 1 << 14

// axes lists the names in the order in which String writes them.
func (l *Layout) axes() []axis {
	return []axis{{"dp", &l.DP}, {"tp", &l.TP}, {"pp", &l.PP}, {"vpp", &l.VPP}, {"cp", &l.CP}, {"ep", &l.EP}, {"etp", &l.ETP}}
}

type axis struct {
	name   string
	extent *int
}

// ParseLayout reads extents of axes, such as dp=2,tp=2. The empty text is one rank. Given ep but no dp, dp is the least that fits.
func ParseLayout(s string) (Layout, error) {
	var l Layout
	if s != "" {
		for _, item := range strings.Split(s, ",") {
			if err := l.set(s, item); err != nil {
				return Layout{}.Full(), err
			}
		}
	}
	if l.DP == 0 {
		l.DP = l.leastDP()
	}
	l = l.Full()
	return l, l.Check()
}

func (l *Layout) set(s, item string) error {
	name, text, ok := strings.Cut(item, "=")
	var names []string
	for _, a := range l.axes() {
		names = append(names, a.name)
		if a.name != name || !ok {
			continue
		}
		if *a.extent != 0 {
			return fmt.Errorf("layout %q: %s: given twice", s, name)
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > MaxRanks {
			return fmt.Errorf("layout %q: %q: must be from 1 to %d", s, item, MaxRanks)
		}
		*a.extent = n
		return nil
	}
	return fmt.Errorf("layout %q: %q: %smust be AXIS=N with an axis of %s", s, item, spell.Meant(name, names), strings.Join(names, ", "))
}

// leastDP is the least dp with which the experts fold the ranks.
func (l Layout) leastDP() int {
	f := l.Full()
	dp := 1
	for dp < f.EP*f.ETP && f.TP*f.CP*dp%(f.EP*f.ETP) != 0 {
		dp++
	}
	return dp
}

// Full is the layout with every extent that is not given 1.
func (l Layout) Full() Layout {
	for _, a := range l.axes() {
		*a.extent = max(*a.extent, 1)
	}
	return l
}

// Check says why the ranks cannot be laid out so.
func (l Layout) Check() error {
	l = l.Full()
	world := 1
	for _, n := range []int{l.TP, l.CP, l.DP, l.PP} {
		if world *= n; world > MaxRanks {
			return fmt.Errorf("layout %q: more than %d ranks", l, MaxRanks)
		}
	}
	switch {
	case l.stage()%(l.EP*l.ETP) != 0:
		near := l
		near.DP = Layout{TP: l.TP, CP: l.CP, EP: l.EP, ETP: l.ETP}.leastDP()
		return fmt.Errorf("layout %q: etp·ep = %d must divide tp·cp·dp = %d; the nearest that fits: %q", l, l.EP*l.ETP, l.stage(), near)
	case l.VPP > 1 && l.PP == 1:
		near := l
		near.VPP = 1
		return fmt.Errorf("layout %q: vpp needs pp of at least 2; the nearest that fits: %q", l, near)
	}
	return nil
}

// String is what ParseLayout reads: dp, and what else is more than 1.
func (l Layout) String() string {
	l = l.Full()
	text := fmt.Sprintf("dp=%d", l.DP)
	for _, a := range l.axes()[1:] {
		if *a.extent > 1 {
			text += fmt.Sprintf(",%s=%d", a.name, *a.extent)
		}
	}
	return text
}

// stage is the number of ranks that have the same layers.
func (l Layout) stage() int { return l.TP * l.CP * l.DP }

// World is the number of ranks.
func (l Layout) World() int { l = l.Full(); return l.stage() * l.PP }

// At is a rank's place on the grid.
func (l Layout) At(rank int) device.Coord {
	l = l.Full()
	return device.Coord{TP: rank % l.TP, CP: rank / l.TP % l.CP, DP: rank / (l.TP * l.CP) % l.DP, PP: rank / l.stage(), EP: rank % l.stage() / l.ETP % l.EP}
}

// Extent is that of an axis.
func (l Layout) Extent(name string) int {
	l = l.Full()
	for _, a := range l.axes() {
		if a.name == name {
			return *a.extent
		}
	}
	return 0
}

// With is the layout with another extent of an axis, and the least dp with which experts then fold the ranks, if its own does not.
func (l Layout) With(name string, n int) Layout {
	l = l.Full()
	for _, a := range l.axes() {
		if a.name == name {
			*a.extent = n
		}
	}
	if l.stage()%(l.EP*l.ETP) != 0 {
		l.DP = l.leastDP()
	}
	return l
}
