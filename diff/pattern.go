package diff

import (
	"fmt"
	"strings"

	"firstbit/device"
)

// axes names a rank's coordinates.
var axes = []struct {
	name string
	of   func(device.Coord) int
}{
	{"tp", func(c device.Coord) int { return c.TP }},
	{"cp", func(c device.Coord) int { return c.CP }},
	{"dp", func(c device.Coord) int { return c.DP }},
	{"pp", func(c device.Coord) int { return c.PP }},
	{"ep", func(c device.Coord) int { return c.EP }},
}

// places are the coordinates of all ranks, by rank.
func places(pairs []*pair) map[int]device.Coord {
	at := map[int]device.Coord{}
	for _, p := range pairs {
		if len(p.a) > 0 {
			at[p.rank] = p.a[0].Coord
		}
	}
	return at
}

// pattern says which ranks have a mismatch that no other brought them, and on which axis they lie together.
func (r *Report) pattern(at map[int]device.Coord) {
	var own []int
	diverged := 0
	for _, v := range r.Ranks {
		if v.Verdict != "identical" {
			diverged++
		}
		if v.Verdict != "identical" && v.Verdict != "downstream" {
			own = append(own, v.Rank)
		}
	}
	if len(r.Ranks) == 1 { // a pattern is one of ranks
		return
	}
	pattern := "subset"
	switch {
	case len(own) == 1 || diverged == 1:
		pattern = "one-rank"
	case len(own) == len(r.Ranks):
		pattern = "all-ranks"
	default:
		if shared := together(own, at); shared != "" {
			r.Evidence = append(r.Evidence, "subset "+shared)
		}
	}
	r.Pattern = &pattern
}

// together names the coordinates that these ranks share and others do not have, such as tp=1: all that have them alone if they do, else
// all they share.
func together(ranks []int, at map[int]device.Coord) string {
	own := map[int]bool{}
	for _, rank := range ranks {
		own[rank] = true
	}
	var shared []string
	for _, axis := range axes {
		if len(ranks) == 0 {
			break
		}
		value := axis.of(at[ranks[0]])
		same, others := true, 0
		for rank, c := range at { // counted: order reaches nothing
			in := own[rank]
			same = same && (!in || axis.of(c) == value)
			if !in && axis.of(c) == value {
				others++
			}
		}
		if !same || len(ranks)+others == len(at) { // or every rank has it
			continue
		}
		text := fmt.Sprintf("%s=%d", axis.name, value)
		if others == 0 {
			return text
		}
		shared = append(shared, text)
	}
	return strings.Join(shared, ", ")
}
