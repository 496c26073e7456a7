package reduce

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"firstbit/lowp"
)

// Summer adds values in an order of its own.
type Summer func(x []float32) float32

// Revealed is what Reveal found out.
type Revealed struct {
	Tree     Tree
	Class    string      // the order the tree is an instance of, "fused" with adders of more than two, or "other"
	Calls    int         // evaluations of the black box
	Verified bool        // random inputs give the tree's sum bit for bit
	Fused    *FusedAdder // how more than two values are added at once; nil: they are not, or not as adders add
}

// Probe is the pair of numbers Reveal asks with. Any sum of units is absorbed by the mask, and
// is itself exact, so that what is left counts units.
type Probe struct {
	Mask, Unit float32
	MaxLeaves  int // how many leaves these two hold good for
}

// ProbeFor fits a probe to the format partial sums are rounded to. A fused adder keeps 24 bits below
// its largest addend, so all units together must lie below the 24th bit under the mask: far
// apart in fp32 and bf16; in fp16 the units are subnormal. bf16 counts to 2⁸ exactly, fp16 to 2¹¹.
func ProbeFor(acc lowp.Format) Probe {
	switch acc {
	case lowp.FP16:
		return Probe{Mask: 0x1p15, Unit: 0x1p-20, MaxLeaves: 1 << 10}
	case lowp.BF16:
		return Probe{Mask: 0x1p100, Unit: 1, MaxLeaves: 1 << 8}
	}
	return Probe{Mask: 0x1p100, Unit: 1, MaxLeaves: maxLeaves}
}

// ErrNotASum is returned when the answers fit no tree: the box is no sum of its
// inputs, rounds partial sums to another format, or changes its order between calls.
var ErrNotASum = errors.New("reveal: the answers fit no tree of additions: not a sum, another accumulate format, or an order that changes from call to call")

// Reveal recovers the tree by which sum adds n values whose partial sums are held in acc.
//
// With +M at i, −M at j and units elsewhere, every unit that meets M before −M does is absorbed: what
// is left counts the leaves outside the smallest subtree of both. The sizes of those subtrees
// determine the tree, also where an adder takes more than two at once. It takes
// n−1 calls for a chain from leaf 0, up to n(n−1)/2 for one that ends there.
//
// The tree is then replayed on random values of acc. For a fused adder that holds the box to
// the alignment and rounding of Tree.Sum or of the tensor cores that add as it does, so one that rounds in a way of its own is revealed but not verified.
//
// Source: Xie, Gao & Hong 2024, "FPRev: Revealing the Order of Floating-Point Summation".
func Reveal(n int, sum Summer, acc lowp.Format) (Revealed, error) {
	p := ProbeFor(acc)
	if n < 1 || n > p.MaxLeaves {
		return Revealed{}, fmt.Errorf("reveal: n = %d: must be from 1 to %d for sums held in %s", n, p.MaxLeaves, acc)
	}
	r := revealer{n: n, sum: sum, probe: p, x: make([]float32, n)}
	t, _, err := r.build(upTo(0, n, 1), n+1)
	if err != nil {
		return Revealed{}, err
	}
	out := Revealed{Tree: t, Calls: r.calls, Class: classify(t, n), Verified: verify(t, n, sum, acc)}
	if fused(t) {
		out.recognise(n, sum)
	}
	return out, nil
}

type revealer struct {
	n     int
	sum   Summer
	probe Probe
	x     []float32
	calls int
}

// size is the number of leaves under the smallest subtree that holds both i and j.
func (r *revealer) size(i, j int) (int, error) {
	for k := range r.x {
		r.x[k] = r.probe.Unit
	}
	r.x[i], r.x[j] = r.probe.Mask, -r.probe.Mask
	r.calls++
	outside := float64(r.sum(r.x)) / float64(r.probe.Unit)
	if outside != math.Trunc(outside) || outside < 0 || outside > float64(r.n-2) {
		return 0, ErrNotASum
	}
	return r.n - int(outside), nil // fits: from 0 to n−2
}

// build is the kid of a node of parent leaves that holds leaves[0], and the leaves of its siblings:
// those that meet leaves[0] only at that node.
func (r *revealer) build(leaves []int, parent int) (t Tree, siblings []int, err error) {
	bySize := map[int][]int{}
	var sizes []int
	for _, j := range leaves[1:] {
		s, err := r.size(leaves[0], j)
		switch {
		case err != nil:
			return Tree{}, nil, err
		case s > parent:
			return Tree{}, nil, ErrNotASum
		case s == parent:
			siblings = append(siblings, j)
			continue
		case bySize[s] == nil:
			sizes = append(sizes, s)
		}
		bySize[s] = append(bySize[s], j)
	}
	slices.Sort(sizes)
	t = Tree{Leaf: leaves[0]}
	have := 1
	for _, s := range sizes { // from leaves[0] outwards, one node at a time
		rest := bySize[s]
		if have += len(rest); have != s {
			return Tree{}, nil, ErrNotASum
		}
		kids := []Tree{t}
		for len(rest) > 0 {
			var kid Tree
			if kid, rest, err = r.build(rest, s); err != nil {
				return Tree{}, nil, err
			}
			kids = append(kids, kid)
		}
		t = Tree{Kids: kids}
	}
	return t, siblings, nil
}

// classify names the first order whose tree this is, of those the tree itself suggests:
// blocks or slices as long as the chain that starts at leaf 0, lanes as many as its first stride, rings that start at
// one of the two leaves that meet first.
func classify(t Tree, n int) string {
	if fused(t) {
		return "fused"
	}
	c := t.canonical()
	run, stride := firstChain(c)
	names := []string{"seq", "reverse", "pairwise"}
	if run > 1 {
		names = append(names, fmt.Sprintf("blocked(%d)", run), fmt.Sprintf("splitk(%d)", (n+run-1)/run))
	}
	if stride > 1 && stride&(stride-1) == 0 {
		names = append(names, fmt.Sprintf("lanes(%d)", stride))
	}
	names = append(names, collectives(c, n)...)
	want := c.String()
	for _, name := range names {
		if MustOrder(name).Tree(n).canonical().String() == want {
			return name
		}
	}
	return "other"
}

// collectives names the orders of collectives that a tree may be. A symmetric one is a ring's.
func collectives(t Tree, n int) []string {
	deepest := t
	for !deepest.isLeaf() && deepest.Depth() > 1 {
		deepest = deeper(deepest)
	}
	names := []string{"nccltree(0)", "nccltree(1)"}
	for _, leaf := range deepest.Leaves() {
		names = append(names, fmt.Sprintf("ring(%d)", (leaf+n-1)%n))
	}
	return names
}

// deeper is the first of the deepest kids.
func deeper(t Tree) Tree {
	deepest := t.Kids[0]
	for _, k := range t.Kids[1:] {
		if k.Depth() > deepest.Depth() {
			deepest = k
		}
	}
	return deepest
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

// verify replays random inputs of mixed sign and size.
func verify(t Tree, n int, sum Summer, acc lowp.Format) bool {
	x := make([]float32, n)
	seed := uint64(n)
	for range 8 {
		for i := range x {
			seed += 0x9e3779b97f4a7c15
			h := (seed ^ seed>>30) * 0xbf58476d1ce4e5b9
			h ^= h >> 27
			v := float32(int64(h)>>40) * 0x1p-23
			x[i] = acc.Round(v * float32(uint(1)<<(bits.Len8(uint8(h))%8)))
		}
		if math.Float32bits(sum(append([]float32(nil), x...))) != math.Float32bits(t.Sum(x, acc)) {
			return false
		}
	}
	return true
}
