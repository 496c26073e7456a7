package diff

import (
	"fmt"
	"html"
	"strings"

	"github.com/tidwall/match"
)

// Heat is a Spread as a picture: a row for each part of the model, a column for each step.
type Heat struct {
	Rows  []string
	Steps []int
	Cells [][]Cell // of rows, of steps
}

// Cell is how many records of a row differ in a step. Of is 0 where there is none.
type Cell struct {
	Differs int `json:"differs"`
	Of      int `json:"of"`
}

// share is from 0, none, to 1, all.
func (c Cell) share() float64 { return float64(c.Differs) / float64(max(c.Of, 1)) }

// ByPart has a row for each layer, and for what stands beside the layers, of all ranks together.
func (s *Spread) ByPart() Heat {
	return s.heat(func(c *SpreadCall) string {
		words := strings.SplitN(c.Name, ".", 3)
		if len(words) > 2 && (words[0] == "layers" || words[0] == "mtp") {
			return words[0] + "." + words[1]
		}
		return words[0]
	})
}

// ByCall has a row for each Call whose scope.name a GLOB matches.
func (s *Spread) ByCall(glob string) Heat {
	return s.heat(func(c *SpreadCall) string {
		if !match.Match(c.Name, glob) {
			return ""
		}
		return c.Name
	})
}

// ByRank has a row for each rank.
func (s *Spread) ByRank() Heat {
	return s.heat(func(c *SpreadCall) string { return fmt.Sprintf("rank %d", c.Rank) })
}

// heat sums Calls up by the row that they are told to be in; empty: in none.
func (s *Spread) heat(row func(*SpreadCall) string) Heat {
	var h Heat
	at := map[string]int{}
	for i, step := range s.Steps {
		h.Steps = append(h.Steps, step.Step)
		for j := range step.Calls {
			c := &step.Calls[j]
			name := row(c)
			if name == "" {
				continue
			}
			n, ok := at[name]
			if !ok {
				n = len(h.Rows)
				at[name], h.Rows, h.Cells = n, append(h.Rows, name), append(h.Cells, make([]Cell, len(s.Steps)))
			}
			h.Cells[n][i].Differs += c.Differs
			h.Cells[n][i].Of += c.Of
		}
	}
	return h
}

// shades are none, less than a third, less than two thirds, less than all, all: they can be told apart without colour.
var shades = []rune("·░▒▓█")

func (c Cell) shade() rune {
	switch {
	case c.Of == 0:
		return ' '
	case c.Differs == 0:
		return shades[0]
	}
	return shades[1+int(3*c.share())] // fits: the share is at most 1
}

// narrow joins steps that stand side by side until there are at most so many columns.
func (h Heat) narrow(columns int) (Heat, int) {
	each := (len(h.Steps) + columns - 1) / max(columns, 1)
	if each <= 1 {
		return h, 1
	}
	n := Heat{Rows: h.Rows, Cells: make([][]Cell, len(h.Cells))}
	for i := 0; i < len(h.Steps); i += each {
		n.Steps = append(n.Steps, h.Steps[i])
	}
	for r, cells := range h.Cells {
		n.Cells[r] = make([]Cell, len(n.Steps))
		for i, c := range cells {
			n.Cells[r][i/each].Differs += c.Differs
			n.Cells[r][i/each].Of += c.Of
		}
	}
	return n, each
}

// Text draws the picture in at most so many columns: a character for a step, or for several where they would not fit.
func (h Heat) Text(width int) string {
	name := len("step")
	for _, r := range h.Rows {
		name = max(name, len([]rune(r)))
	}
	n, each := h.narrow(max(width-name-2, 8))
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s  %s", name, "step", n.axis())
	if each > 1 {
		fmt.Fprintf(&b, "\n%-*s  a character is %d steps", name, "", each)
	}
	b.WriteByte('\n')
	for r, cells := range n.Cells {
		line := fmt.Sprintf("%-*s  ", name, n.Rows[r])
		for _, c := range cells {
			line += string(c.shade())
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// axis writes the number of the first step and of those that five divides above their columns, where there is room.
func (h Heat) axis() string {
	line := []byte(strings.Repeat(" ", len(h.Steps)))
	free := 0
	for i, step := range h.Steps {
		text := fmt.Sprint(step)
		if i >= free && i+len(text) <= len(line) && (i == 0 || step%5 == 0 || step-h.Steps[i-1] > 1) {
			free = i + copy(line[i:], text) + 1
		}
	}
	return strings.TrimRight(string(line), " ")
}

// SVG draws the picture with a rectangle for each row and step; what it counts is its title.
func (h Heat) SVG() string {
	const cell, left, top = 16, 160, 24
	w, height := max(left+cell*len(h.Steps)+8, 470), top+cell*len(h.Rows)+40
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="monospace" font-size="11">`+"\n", w, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", w, height)
	for i, step := range h.Steps {
		if i == 0 || step%5 == 0 {
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%d</text>`+"\n", left+cell*i+cell/2, top-8, step)
		}
	}
	for r, cells := range h.Cells {
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", left-6, top+cell*r+12, html.EscapeString(h.Rows[r]))
		for i, c := range cells {
			if c.Of > 0 {
				fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"><title>step %d, %s: %d of %d differ</title></rect>`+"\n",
					left+cell*i, top+cell*r, cell-1, cell-1, c.colour(), h.Steps[i], html.EscapeString(h.Rows[r]), c.Differs, c.Of)
			}
		}
	}
	fmt.Fprintf(&b, `<text x="8" y="%d">a column is a step; grey: the same bits; the darker, the more Calls</text>`+"\n</svg>\n", height-14)
	return b.String()
}

// colour goes from light grey, none, over orange to dark red, all.
func (c Cell) colour() string {
	if c.Differs == 0 {
		return "#e8e8e8"
	}
	s := c.share()
	return fmt.Sprintf("rgb(%d,%d,%d)", int(250-float64(120*s)), int(190-float64(170*s)), int(120-float64(90*s))) // fits: a share is at most 1
}
