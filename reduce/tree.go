// Package reduce is orders of addition: trees, the orders that make them, the plans that
// name them, and the recovery of a tree from a black box.
package reduce

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"firstbit/lowp"
)

// Tree says which partial sums meet, and when. Without Kids it is the leaf of that
// number (below 0: no leaf at all); a node adds its Kids as By says, and if that is Rounded and there are more than two,
// it is a fused adder, which rounds once. The sum of one leaf is the leaf itself: −0 stays −0.
type Tree struct {
	Leaf int
	Kids []Tree
	By   Adder

	stored bool  // the sum is a part's, which is put down before it is joined; see Formats
	folded *Tree // what this leaf of a drawing stands for; see Folded
	gather bool  // what the right kid has is sent to the left one, whatever its shape; see Formats
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
	b.WriteString(t.By.String())
	b.WriteByte('(')
	for i, k := range t.Kids {
		if i > 0 {
			b.WriteByte(' ')
		}
		k.write(b)
	}
	b.WriteByte(')')
}

// Equal tells whether two trees add the same way: up to swapping the kids of a node,
// which no bit depends on but where rounding errors are carried from kid to kid.
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
		for ; j > 0 && keys[j-1] > key && (t.By == Rounded || t.By.AnyOrder()); j-- {
			kids[j], keys[j] = kids[j-1], keys[j-1]
		}
		kids[j], keys[j] = c, key
	}
	return Tree{Kids: kids, By: t.By}, slices.Min(keys)
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

// count is the number of leaves.
func (t Tree) count() (n int) {
	t.visit(func(int) { n++ })
	return n
}

// complete tells why the leaves are not 0, 1, 2, … in any place.
func (t Tree) complete() error {
	leaves := t.Leaves()
	seen := make([]bool, len(leaves))
	for _, l := range leaves {
		if l >= len(seen) || seen[l] {
			return fmt.Errorf("leaves must be 0 to %d, each once: %d is another, or twice", len(leaves)-1, l)
		}
		seen[l] = true
	}
	if len(leaves) == 0 {
		return errors.New("the tree has no leaves")
	}
	return nil
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
			continue // a leaf is read when it is added, by a wide or compensated accumulator too
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
	return most + t.By.ulps(len(t.Kids))
}

// Sum is SumIn with all partial sums in one format.
func (t Tree) Sum(x []float32, acc lowp.Format) float32 { return t.SumIn(x, Formats{Acc: acc}) }

// SumIn is the definition of a tree: leaves are values of x, rounded to the accumulate format as they enter; the two
// kids of a node are added in fp32 and rounded to it. A node of more than two kids is a fused
// adder, see fusedSum, unless another Adder adds them.
//
// Since every kid is a value of the accumulate format, a node is the correctly rounded sum of its kids (Figueroa
// 1995), and whoever adds by the tree gets its bits.
func (t Tree) SumIn(x []float32, f Formats) float32 {
	switch {
	case t.isEmpty():
		return float32(math.Copysign(0, -1))
	case t.isLeaf():
		return t.put(f.Acc.Round(x[t.Leaf]), f)
	}
	parts := make([]float32, len(t.Kids))
	for i, k := range t.Kids {
		parts[i] = k.SumIn(x, f)
		if t.comes(i) {
			parts[i] = f.Wire.Round(parts[i])
		}
	}
	return t.put(AddBy(t.By, parts, f.Acc), f)
}

// put is a sum as its parent reads it.
func (t Tree) put(v float32, f Formats) float32 {
	if t.stored {
		return f.Store.Round(v)
	}
	return v
}

// comes tells whether what kid i has comes from elsewhere, see Formats.
func (t Tree) comes(i int) bool {
	if len(t.Kids) > 2 || t.By != Rounded {
		return true
	}
	right := t.gather || !t.Kids[1].isLeaf()
	return right == (i == 1)
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
	outer.Kids = kids
	return outer
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
