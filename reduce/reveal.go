package reduce

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"firstbit/lowp"
)

// Summer adds values in an order of its own.
type Summer func(x []float32) float32

// Revealed is what Reveal found out.
type Revealed struct {
	Tree     Tree
	Class    string // the order the tree is an instance of, "fused" with adders of more than two, or "other"
	Calls    int    // evaluations of the black box
	Verified bool   // random inputs give the tree's sum bit for bit
}

// Probe is the pair of numbers Reveal asks with: units beside a mask are absorbed, and
// n of them are still counted exactly.
type Probe struct {
	Mask, Unit float32
	MaxLeaves  int // how many units the format counts exactly
}

// ProbeFor fits a probe to the format partial sums are rounded to.
func ProbeFor(acc lowp.Format) Probe {
	switch acc {
	case lowp.FP16: // ∞ is near: a low mask and small units
		return Probe{Mask: 0x1p15, Unit: 0x1p-8, MaxLeaves: 1 << 10}
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
// determine the tree, also where an adder takes more than two at once.
//
// Source: Xie, Gao & Hong 2024, "FPRev: Revealing the Order of Floating-Point Summation".
func Reveal(n int, sum Summer, acc lowp.Format) (Revealed, error) {
	p := ProbeFor(acc)
	if n < 1 || n > p.MaxLeaves {
		return Revealed{}, fmt.Errorf("reveal: n = %d: must be from 1 to %d for sums held in %s", n, p.MaxLeaves, acc)
	}
	r := revealer{n: n, sum: sum, probe: p, x: make([]float32, n)}
	leaves := upTo(0, n, 1)
	t, err := r.build(leaves)
	if err != nil {
		return Revealed{}, err
	}
	out := Revealed{Tree: t, Calls: r.calls, Class: classify(t, n)}
	out.Verified = verify(t, n, sum, acc)
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
	return r.n - int(outside), nil
}

// build is the subtree over the given leaves.
func (r *revealer) build(leaves []int) (Tree, error) {
	if len(leaves) == 1 {
		return Tree{Leaf: leaves[0]}, nil
	}
	i := leaves[0]
	bySize := map[int][]int{}
	sizes := []int{}
	for _, j := range leaves[1:] {
		s, err := r.size(i, j)
		if err != nil {
			return Tree{}, err
		}
		if bySize[s] == nil {
			sizes = append(sizes, s)
		}
		bySize[s] = append(bySize[s], j)
	}
	sortInts(sizes)
	t, have := Tree{Leaf: i}, 1
	for _, s := range sizes { // from i outwards, one node at a time
		have += len(bySize[s])
		if have != s {
			return Tree{}, ErrNotASum
		}
		kids, err := r.siblings(bySize[s], s)
		if err != nil {
			return Tree{}, err
		}
		t = Tree{Kids: append([]Tree{t}, kids...)}
	}
	return t, nil
}

// siblings splits leaves into the kids of a node that holds size leaves: two leaves of
// different kids meet only at the node itself.
func (r *revealer) siblings(leaves []int, size int) ([]Tree, error) {
	var kids []Tree
	for len(leaves) > 0 {
		kid, rest := []int{leaves[0]}, []int{}
		for _, j := range leaves[1:] {
			s, err := r.size(leaves[0], j)
			switch {
			case err != nil:
				return nil, err
			case s > size:
				return nil, ErrNotASum
			case s == size:
				rest = append(rest, j)
			default:
				kid = append(kid, j)
			}
		}
		t, err := r.build(kid)
		if err != nil {
			return nil, err
		}
		kids, leaves = append(kids, t), rest
	}
	return kids, nil
}

func sortInts(x []int) {
	for i := range x {
		for j := i; j > 0 && x[j-1] > x[j]; j-- {
			x[j-1], x[j] = x[j], x[j-1]
		}
	}
}

// classify names the first order whose tree this is.
func classify(t Tree, n int) string {
	if fused(t) {
		return "fused"
	}
	names := []string{"seq", "reverse", "pairwise"}
	for w := 2; w < n; w *= 2 {
		names = append(names, fmt.Sprintf("blocked(%d)", w), fmt.Sprintf("lanes(%d)", w))
	}
	for s := 2; s < n && s <= 64; s++ {
		names = append(names, fmt.Sprintf("splitk(%d)", s))
	}
	want := t.canonical().String()
	for _, name := range names {
		if MustOrder(name).Tree(n).canonical().String() == want {
			return name
		}
	}
	return "other"
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
