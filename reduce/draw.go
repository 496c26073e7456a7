package reduce

import (
	"fmt"
	"strconv"
	"strings"
)

// layout places every leaf on a line, in the order of the tree, and every node in the
// column of its height, on the line of its last kid.
type layout struct {
	rows   []int // leaf of each line
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
		l.rows = append(l.rows, t.Leaf)
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
	for _, leaf := range l.rows {
		digits = max(digits, len(strconv.Itoa(leaf)))
	}
	var b strings.Builder
	for i, line := range grid {
		fmt.Fprintf(&b, "%*d %s\n", digits, l.rows[i], strings.TrimRight(string(line), " "))
	}
	return b.String()
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
		fmt.Fprintf(&b, `<text x="%d" y="%d">%d</text>`+"\n", x(0)-4, y(i)+4, leaf)
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
