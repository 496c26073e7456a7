package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"firstbit/reduce"
	"firstbit/trace"
)

// orders draws, side by side, how the two runs added the element's contributions.
func (s story) orders() {
	a, b := s.contributions(s.r.Report.A), s.contributions(s.r.Report.B)
	if len(a) < 2 || len(b) < 2 {
		return
	}
	walked := ""
	if slices.ContainsFunc(slices.Concat(a, b), func(p trace.Contribution) bool { return p.Reverse }) {
		walked = " (← walked from the end)"
	}
	s.print("     the order in which its %d contributions were added%s:", len(a), walked)
	left, right := drawing(a), drawing(b)
	if most := 12; len(a) > most || len(b) > most { // two drawings do not stand side by side
		s.print("       run A  \t%s", sequence(a))
		s.print("       run B  \t%s", sequence(b))
		return
	}
	width := 24
	for _, l := range left {
		width = max(width, len([]rune(l))+2)
	}
	s.print("       %s%s", pad("run A", width), "run B")
	for i := range max(len(left), len(right)) {
		l, r := "", ""
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		s.print("       %s%s", pad(l, width), r)
	}
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(width-len([]rune(s)), 1))
}

// contributions are the partials of the row block that holds the differing element.
func (s story) contributions(rec *trace.Record) []trace.Contribution {
	element := 0
	if s.r.Fault.Bytes != nil {
		element = s.r.Fault.Bytes.Element
	}
	block := 0
	for _, p := range rec.Partials {
		if p.Row <= element {
			block = max(block, p.Row)
		}
	}
	var mine []trace.Contribution
	for _, p := range rec.Partials {
		if p.Row == block {
			mine = append(mine, p)
		}
	}
	return mine
}

// sequence names the contributions in their order.
func sequence(c []trace.Contribution) string {
	names := make([]string, len(c))
	for i, p := range c {
		names[i] = strconv.Itoa(p.Tile)
		if p.Reverse {
			names[i] += "←"
		}
	}
	return strings.Join(names, " ")
}

// drawing is the tree of a chain over the contributions, each line named by its tile, CTA or split.
func drawing(c []trace.Contribution) []string {
	order := make([]int, len(c))
	reverse := map[int]bool{}
	for i, p := range c {
		order[i] = p.Tile
		reverse[p.Tile] = p.Reverse
	}
	lines := strings.Split(strings.TrimSuffix(reduce.Chain(order).Text(), "\n"), "\n")
	for i := range lines {
		mark := " "
		if reverse[order[i]] {
			mark = "←"
		}
		part, rest, _ := strings.Cut(strings.TrimLeft(lines[i], " "), " ")
		lines[i] = fmt.Sprintf("part %2s %s %s", part, mark, rest)
	}
	return lines
}
