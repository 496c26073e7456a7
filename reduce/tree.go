// Package reduce is orders of addition: trees, the orders that make them, the plans that
// name them, and the recovery of a tree from a black box.
package reduce

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"firstbit/lowp"
)

// Tree says which partial sums meet, and when. Without Kids it is the leaf of that
// number (below 0: no leaf at all); a node with more than two Kids is a fused adder, which rounds once.
// The sum of one leaf is the leaf itself: −0 stays −0.
type Tree struct {
	Leaf int
	Kids []Tree
}

// Empty is the tree without leaves, whose sum is −0.
var Empty = Tree{Leaf: -1}

// Node joins two trees or more.
func Node(kids ...Tree) Tree { return Tree{Kids: kids} }

func (t Tree) isLeaf() bool  { return len(t.Kids) == 0 }
func (t Tree) isEmpty() bool { return t.isLeaf() && t.Leaf < 0 }

// String writes ((0 1) (2 3)).
func (t Tree) String() string {
	var b strings.Builder
	t.write(&b)
	return b.String()
}

func (t Tree) write(b *strings.Builder) {
	switch {
	case t.isEmpty():
		b.WriteString("()")
		return
	case t.isLeaf():
		b.WriteString(strconv.Itoa(t.Leaf))
		return
	}
	b.WriteByte('(')
	for i, k := range t.Kids {
		if i > 0 {
			b.WriteByte(' ')
		}
		k.write(b)
	}
	b.WriteByte(')')
}

// The extents that parsers accept: more is a mistake, not an order.
const (
	maxLeaves = 1 << 20
	maxDepth  = 10000
)

// ParseTree reads what String writes: nodes of two kids or more, no leaf twice.
func ParseTree(s string) (Tree, error) {
	p := treeParser{s: s, seen: map[int]bool{}}
	if s == "()" {
		return Empty, nil
	}
	t, err := p.tree(0)
	if err != nil {
		return Tree{}, err
	}
	if p.i != len(s) {
		return Tree{}, fmt.Errorf("tree: unexpected %q at %d", s[p.i], p.i)
	}
	return t, nil
}

type treeParser struct {
	s    string
	i    int
	seen map[int]bool
}

func (p *treeParser) tree(depth int) (Tree, error) {
	if depth > maxDepth {
		return Tree{}, errors.New("tree: nested too deeply")
	}
	if p.i < len(p.s) && p.s[p.i] == '(' {
		return p.node(depth)
	}
	start := p.i
	for p.i < len(p.s) && '0' <= p.s[p.i] && p.s[p.i] <= '9' {
		p.i++
	}
	digits := p.s[start:p.i]
	n, err := strconv.Atoi(digits)
	if err != nil || n >= maxLeaves || len(digits) > 1 && digits[0] == '0' {
		return Tree{}, fmt.Errorf("tree: expected ( or a leaf from 0 to %d at %d", maxLeaves-1, start)
	}
	if p.seen[n] {
		return Tree{}, fmt.Errorf("tree: leaf %d is added twice", n)
	}
	p.seen[n] = true
	return Tree{Leaf: n}, nil
}

func (p *treeParser) node(depth int) (Tree, error) {
	p.i++
	var kids []Tree
	for {
		k, err := p.tree(depth + 1)
		if err != nil {
			return Tree{}, err
		}
		kids = append(kids, k)
		if p.i == len(p.s) {
			return Tree{}, errors.New("tree: missing )")
		}
		c := p.s[p.i]
		p.i++
		switch {
		case c == ')' && len(kids) > 1:
			return Tree{Kids: kids}, nil
		case c == ' ':
		default:
			return Tree{}, fmt.Errorf("tree: expected a space or ) after two or more sums at %d", p.i-1)
		}
	}
}

// Equal tells whether two trees add the same way: up to swapping the kids of a node,
// which no bit depends on.
func (t Tree) Equal(u Tree) bool { return t.canonical().String() == u.canonical().String() }

// canonical orders the kids of every node by their smallest leaf.
func (t Tree) canonical() Tree {
	c, _ := t.sorted()
	return c
}

func (t Tree) sorted() (Tree, int) {
	if t.isLeaf() {
		return t, t.Leaf
	}
	kids := make([]Tree, len(t.Kids))
	keys := make([]int, len(t.Kids))
	for i, k := range t.Kids {
		c, key := k.sorted()
		j := i
		for ; j > 0 && keys[j-1] > key; j-- {
			kids[j], keys[j] = kids[j-1], keys[j-1]
		}
		kids[j], keys[j] = c, key
	}
	return Tree{Kids: kids}, keys[0]
}

// Leaves lists the leaves from left to right.
func (t Tree) Leaves() []int {
	var l []int
	t.visit(func(leaf int) { l = append(l, leaf) })
	return l
}

func (t Tree) visit(leaf func(int)) {
	if t.isLeaf() && !t.isEmpty() {
		leaf(t.Leaf)
	}
	for _, k := range t.Kids {
		k.visit(leaf)
	}
}

// Depth is the number of additions the deepest leaf passes.
func (t Tree) Depth() int {
	d := 0
	for _, k := range t.Kids {
		d = max(d, k.Depth()+1)
	}
	return d
}

// Slots is the number of partial sums alive at once in the best order of evaluation.
func (t Tree) Slots() int {
	// Sethi and Ullman 1970: the costliest kids first, each finished one holding a slot.
	need := make([]int, 0, len(t.Kids))
	for _, k := range t.Kids {
		if k.isLeaf() {
			continue // a leaf is read when it is added
		}
		s := k.Slots()
		i := len(need)
		need = append(need, s)
		for ; i > 0 && need[i-1] < s; i-- {
			need[i] = need[i-1]
		}
		need[i] = s
	}
	slots := 1
	for i, s := range need {
		slots = max(slots, s+i)
	}
	return slots
}

// Ulps bounds the error of the sum in units of roundoff times Σ|x|, to first order: the
// number of roundings the worst-placed leaf passes (Higham 2002, §4.2). For values of one sign
// that is the relative error. A fused adder of k kids counts k: it rounds once, and
// what it cuts off the k−1 smaller addends is below one unit of the largest each.
func (t Tree) Ulps() int {
	if t.isLeaf() {
		return 0
	}
	most := 0
	for _, k := range t.Kids {
		most = max(most, k.Ulps())
	}
	if len(t.Kids) > 2 {
		return most + len(t.Kids)
	}
	return most + 1
}

// Sum is the definition of a tree: leaves are values of x, rounded to acc as they enter; the two
// kids of a node are added in fp32 and rounded to acc. A node of more than two kids is a fused
// adder, see fusedSum.
//
// Since every kid is a value of acc, a node is the correctly rounded sum of its kids (Figueroa
// 1995), and whoever adds by the tree gets its bits.
func (t Tree) Sum(x []float32, acc lowp.Format) float32 {
	switch {
	case t.isEmpty():
		return float32(math.Copysign(0, -1))
	case t.isLeaf():
		return acc.Round(x[t.Leaf])
	case len(t.Kids) == 2:
		return acc.Round(t.Kids[0].Sum(x, acc) + t.Kids[1].Sum(x, acc))
	}
	parts := make([]float32, len(t.Kids))
	for i, k := range t.Kids {
		parts[i] = k.Sum(x, acc)
	}
	return roundOnce(fusedSum(parts), acc)
}

// Graft replaces leaf i of outer by inner[i]. An empty one is absent, and so is a node of
// which nothing is left; a node of which one kid is left is that kid.
func Graft(outer Tree, inner []Tree) Tree {
	switch {
	case outer.isEmpty():
		return outer
	case outer.isLeaf():
		return inner[outer.Leaf]
	}
	kids := make([]Tree, 0, len(outer.Kids))
	for _, k := range outer.Kids {
		if g := Graft(k, inner); !g.isEmpty() {
			kids = append(kids, g)
		}
	}
	switch len(kids) {
	case 0:
		return Empty
	case 1:
		return kids[0]
	}
	return Tree{Kids: kids}
}

// Chain adds leaves one after another: ((a b) c) d.
func Chain(leaves []int) Tree {
	if len(leaves) == 0 {
		return Empty
	}
	t := Tree{Leaf: leaves[0]}
	for _, l := range leaves[1:] {
		t = Node(t, Tree{Leaf: l})
	}
	return t
}
