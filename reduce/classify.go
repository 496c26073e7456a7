package reduce

import (
	"fmt"
	"slices"
)

// classFused is the class of trees with adders of more than two.
const classFused = "fused"

// classify names the first order whose tree this is, of those the tree itself suggests:
// blocks or slices as long as the chain that starts at leaf 0, lanes as many as its first stride, rings that start at
// one of the two leaves that meet first, and parts of those parts.
func classify(t Tree, n int) string {
	if fused(t) {
		return classFused
	}
	c := t.canonical()
	run, stride := firstChain(c)
	names := []string{"seq", "reverse", "pairwise"}
	if run > 1 {
		names = append(names, fmt.Sprintf("blocked(%d)", run), fmt.Sprintf("splitk(%d)", (n+run-1)/run))
	}
	if powerOfTwo(stride) {
		names = append(names, fmt.Sprintf("lanes(%d)", stride))
	}
	names = append(names, collectives(c, n)...)
	want := c.String()
	if name, ok := oneOf(names, want, n); ok {
		return name
	}
	if name, ok := oneOf(nested(c, n), want, n); ok {
		return name
	}
	return "other"
}

func powerOfTwo(n int) bool { return n > 1 && n&(n-1) == 0 }

// oneOf is the first of the orders whose tree prints so.
func oneOf(names []string, want string, n int) (string, bool) {
	for _, name := range names {
		o, err := ParseOrder(name)
		if err == nil && o.Fits(n) && o.Tree(n).canonical().String() == want {
			return o.String(), true
		}
	}
	return "", false
}

// nestedMost bounds the subtrees that are taken for a part.
const nestedMost = 12

// nested names orders of parts of which a subtree with leaf 0 may be the first: consecutive leaves are a block or a slice, others as far apart as
// one another a lane. How the part adds is its own class.
// The smallest parts come first.
func nested(t Tree, n int) (names []string) {
	tried := 0
	for ; !t.isLeaf() && tried < nestedMost; t = t.Kids[0] {
		part := t.Kids[0]
		if part.isLeaf() || t.Kids[1].isLeaf() { // a chain goes on: its parts are no parts
			continue
		}
		size, stride, ok := progression(part)
		if !ok {
			continue
		}
		tried++
		within := classify(divided(part, stride), size)
		if within == "other" {
			continue
		}
		var these []string
		for _, join := range []string{"pairwise", "seq", "reverse", fmt.Sprintf("lanes(%d)", max(stride/2, 1))} {
			if stride > 1 {
				these = append(these, fmt.Sprintf("lanes(%d,%s,%s)", stride, join, within))
				continue
			}
			these = append(these, fmt.Sprintf("blocked(%d,%s,%s)", size, join, within), fmt.Sprintf("splitk(%d,%s,%s)", (n+size-1)/size, join, within))
		}
		names = append(these, names...)
	}
	return names
}

// progression tells whether the leaves of a tree are 0, stride, 2·stride, …
func progression(t Tree) (size, stride int, ok bool) {
	leaves := t.Leaves()
	slices.Sort(leaves)
	if len(leaves) < 2 || leaves[0] != 0 {
		return 0, 0, false
	}
	stride = leaves[1]
	for i, l := range leaves {
		if l != i*stride {
			return 0, 0, false
		}
	}
	return len(leaves), stride, true
}

// divided is a tree whose leaves are numbered by multiples of a stride.
func divided(t Tree, stride int) Tree {
	if t.isLeaf() {
		return Tree{Leaf: t.Leaf / stride}
	}
	kids := make([]Tree, len(t.Kids))
	for i, k := range t.Kids {
		kids[i] = divided(k, stride)
	}
	return Tree{Kids: kids, By: t.By}
}

// collectives names the orders of collectives that a tree may be. A symmetric one is a ring's.
func collectives(t Tree, n int) []string {
	var names []string
	_, deepest := deepest(t)
	for _, leaf := range deepest.Leaves() {
		names = append(names, fmt.Sprintf("ring(%d)", (leaf+n-1)%n))
	}
	names = append(names, "nccltree(0)", "nccltree(1)")
	for _, node := range []int{2, 4, 8, 16} {
		if node < n {
			names = append(names, fmt.Sprintf("nccltree(0,%d)", node), fmt.Sprintf("nccltree(1,%d)", node))
		}
	}
	return names
}

// deepest is the first node over leaves of those that pass the most additions, and how many these are.
func deepest(t Tree) (depth int, node Tree) {
	node = t
	for _, k := range t.Kids {
		if d, below := deepest(k); d+1 > depth {
			if depth = d + 1; d > 0 {
				node = below
			}
		}
	}
	return depth, node
}

// firstChain follows leaf 0 of a canonical tree outwards: how many leaves 0, 1, 2, … are added one
// by one, and the leaf that leaf 0 meets first, 0 if it meets a sum.
func firstChain(t Tree) (run, stride int) {
	var path []Tree // from the root down to the node of leaf 0
	for ; !t.isLeaf(); t = t.Kids[0] {
		path = append(path, t)
	}
	run = 1
	for i := len(path) - 1; i >= 0; i-- {
		second := path[i].Kids[1]
		if i == len(path)-1 && second.isLeaf() {
			stride = second.Leaf
		}
		if !second.isLeaf() || second.Leaf != run {
			break
		}
		run++
	}
	return run, stride
}

func fused(t Tree) bool {
	if len(t.Kids) > 2 {
		return true
	}
	for _, k := range t.Kids {
		if fused(k) {
			return true
		}
	}
	return false
}
