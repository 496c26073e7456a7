package reduce

import "math/bits"

// Run is so many leaves of a tree from one on.
type Run struct{ Lo, N int }

// Subtrees cuts the leaves from lo to hi of a pairwise tree into the fewest runs that are whole subtrees, whatever follows them: at most two of a
// length, and 2·log₂(hi−lo) together.
func Subtrees(lo, hi int) (runs []Run) {
	for lo < hi {
		n := 1 << (bits.Len(uint(hi-lo)) - 1)
		if lo > 0 {
			n = min(n, lo&-lo)
		}
		runs = append(runs, Run{lo, n})
		lo += n
	}
	return runs
}

// Over is the order for runs that follow one another from leaf 0 on, each being one value: that in which the tree over all leaves adds the runs'
// sums. Only of the pairwise order are they subtrees; any other adds them as they come. Where all runs are as long, and a power of two, that is
// the pairwise order over them.
func (o Order) Over(runs []Run) Order {
	if o.kind != pairwise || len(runs) == 0 || alike(runs) {
		return o
	}
	last := runs[len(runs)-1]
	tree, _ := collapse(pairwiseTree(singles(last.Lo+last.N)), 0, runs)
	return OrderOf(tree)
}

// alike tells whether runs are as long as each other, and a power of two.
func alike(runs []Run) bool {
	for _, r := range runs {
		if r.N != runs[0].N || r.N&(r.N-1) != 0 {
			return false
		}
	}
	return true
}

// collapse is a tree whose leaves begin at lo with a leaf in the place of each run, and how many leaves it had.
func collapse(t Tree, lo int, runs []Run) (Tree, int) {
	n := t.count()
	for i, r := range runs {
		if r.Lo == lo && r.N == n {
			return Tree{Leaf: i}, n
		}
	}
	if t.isLeaf() {
		panic("reduce: a run is no subtree")
	}
	kids, at := make([]Tree, len(t.Kids)), lo
	for i, k := range t.Kids {
		of := 0
		kids[i], of = collapse(k, at, runs)
		at += of
	}
	return Node(kids[0], kids[1]), n
}
