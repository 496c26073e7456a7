package reduce

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// layout places every leaf on a line, in the order of the tree, and every node in the
// column of its height, on the line of its last kid.
type layout struct {
	rows   []string // what stands at the left of each line
	joins  []placed
	height int
}

type placed struct {
	col  int
	kids []end // where its kids end
	row  int
}

type end struct{ col, row int }

func (l *layout) place(t Tree) end {
	if t.isLeaf() {
		l.rows = append(l.rows, t.label())
		return end{0, len(l.rows) - 1}
	}
	var kids []end
	col := 0
	for _, k := range t.Kids {
		e := l.place(k)
		kids = append(kids, e)
		col = max(col, e.col)
	}
	col++
	row := kids[len(kids)-1].row
	l.joins = append(l.joins, placed{col, kids, row})
	l.height = max(l.height, col)
	return end{col, row}
}

func layoutOf(t Tree) layout {
	var l layout
	if !t.isEmpty() {
		l.place(t)
	}
	return l
}

// Text draws the tree for a terminal, one leaf a line, additions where lines meet:
//
//	0 ─┐
//	1 ─┴─┐
//	2 ───┴─
func (t Tree) Text() string {
	l := layoutOf(t)
	width := 2*l.height + 2
	grid := make([][]rune, len(l.rows))
	for i := range grid {
		grid[i] = []rune(strings.Repeat(" ", width))
	}
	for i := range grid {
		grid[i][0] = '─'
	}
	for _, j := range l.joins {
		l.draw(grid, j)
	}
	digits := 0
	for _, row := range l.rows {
		digits = max(digits, utf8.RuneCountInString(row))
	}
	var b strings.Builder
	for i, line := range grid {
		fmt.Fprintf(&b, "%*s %s\n", digits, l.rows[i], strings.TrimRight(string(line), " "))
	}
	return b.String()
}

// label is the leaf's number, or what a closed subtree adds.
func (t Tree) label() string {
	if t.folded == nil {
		return strconv.Itoa(t.Leaf)
	}
	return t.folded.brief()
}

// brief names a subtree by some of its leaves, their number, and its depth.
func (t Tree) brief() string {
	l := t.Leaves()
	some := fmt.Sprint(l[0], " ", l[1])
	if len(l) > 3 {
		some += " …"
	}
	if len(l) > 2 {
		some += fmt.Sprint(" ", l[len(l)-1])
	}
	return fmt.Sprintf("%s: %d by depth %d", some, len(l), t.Depth())
}

// Folded is the tree with the subtrees of most leaves opened, one after another, as long as no more than so many lines draw it. Each that
// stays closed is a line of Text. It is for drawing alone.
func (t Tree) Folded(lines int) Tree {
	if t.count() <= lines {
		return t
	}
	root := t
	f := Tree{folded: &root}
	open := []*Tree{&f}
	for drawn := 1; ; {
		best := -1
		for i, o := range open {
			if drawn+len(o.folded.Kids)-1 <= lines && (best < 0 || o.folded.count() > open[best].folded.count()) {
				best = i
			}
		}
		if best < 0 {
			return f
		}
		o := open[best]
		open = slices.Delete(open, best, best+1)
		drawn += len(o.folded.Kids) - 1
		*o = Tree{Kids: slices.Clone(o.folded.Kids), By: o.folded.By}
		for i := range o.Kids {
			if k := &o.Kids[i]; !k.isLeaf() {
				sub := *k
				*k = Tree{folded: &sub}
				open = append(open, k)
			}
		}
	}
}

func (l *layout) draw(grid [][]rune, j placed) {
	x := 2*j.col - 1
	top := j.kids[0].row
	for i, k := range j.kids {
		for c := max(2*k.col-1+1, 0); c < x; c++ {
			grid[k.row][c] = '─'
		}
		switch {
		case i == 0:
			grid[k.row][x] = '┐'
		case i == len(j.kids)-1:
			grid[k.row][x] = '┴'
		default:
			grid[k.row][x] = '┤'
		}
	}
	for r := top + 1; r < j.row; r++ {
		if grid[r][x] == ' ' {
			grid[r][x] = '│'
		}
	}
	grid[j.row][x+1] = '─'
}

// SVG draws the tree as a picture: leaves at the left, the sum at the right.
func (t Tree) SVG() string {
	const dx, dy, pad = 28, 18, 14
	l := layoutOf(t)
	w, h := pad*2+40+dx*(l.height+1), pad*2+dy*max(len(l.rows)-1, 0)
	x := func(col int) int { return pad + 30 + dx*col }
	y := func(row int) int { return pad + dy*row }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="monospace" font-size="12">`+"\n", w, h)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/><g fill="none" stroke="#345" stroke-width="1.2">`+"\n", w, h)
	for _, j := range l.joins {
		for _, k := range j.kids {
			fmt.Fprintf(&b, `<path d="M%d %dH%dV%d"/>`+"\n", x(k.col), y(k.row), x(j.col), y(j.row))
		}
	}
	root := len(l.rows) - 1
	if root >= 0 {
		fmt.Fprintf(&b, `<path d="M%d %dh%d"/>`+"\n", x(l.height), y(root), dx)
	}
	b.WriteString("</g><g fill=\"#c33\">\n")
	for _, j := range l.joins {
		fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="3"/>`+"\n", x(j.col), y(j.row))
	}
	b.WriteString("</g><g fill=\"#111\" text-anchor=\"end\">\n")
	for i, leaf := range l.rows {
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text>`+"\n", x(0)-4, y(i)+4, leaf)
	}
	b.WriteString("</g></svg>\n")
	return b.String()
}

// DOT writes the tree for Graphviz.
func (t Tree) DOT() string {
	var b strings.Builder
	b.WriteString("digraph order {\n  rankdir=LR; node [shape=circle, label=\"+\", width=0.3, fixedsize=true];\n")
	n := 0
	var emit func(t Tree) string
	emit = func(t Tree) string {
		if t.isLeaf() {
			fmt.Fprintf(&b, "  x%d [shape=plaintext, label=\"%d\"];\n", t.Leaf, t.Leaf)
			return fmt.Sprintf("x%d", t.Leaf)
		}
		name := fmt.Sprintf("s%d", n)
		n++
		fmt.Fprintf(&b, "  %s;\n", name)
		for _, k := range t.Kids {
			fmt.Fprintf(&b, "  %s -> %s;\n", emit(k), name)
		}
		return name
	}
	if !t.isEmpty() {
		emit(t)
	}
	b.WriteString("}\n")
	return b.String()
}
