package reduce

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"firstbit/lowp"
)

// Summer adds values in an order of its own.
type Summer func(x []float32) float32

// Box is a Summer that may fail to answer, and may answer in fp64.
type Box func(x []float32) (float64, error)

// Revealed is what Reveal found out.
type Revealed struct {
	Tree     Tree            // Empty: the answers fit none
	Class    string          // the order the tree is an instance of; "fused" with adders of many, an adder's name, "varies", "not a sum", or "other"
	Detail   string          // more of the class: formats, bits that are kept
	Calls    int             // questions about the tree
	Checks   int             // questions of the replay, and about the class
	Verified bool            // random inputs give the sum that Tree and Class say, bit for bit
	Counter  *CounterExample // nil: nothing contradicts
	Fused    *FusedAdder     // how more than two values are added at once; nil: they are not, or not as adders add
}

// CounterExample is a question whose answer is not what the class says.
type CounterExample struct {
	X         []float32
	Got, Want float64
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

// What an answer may be that fits no tree.
var (
	errNoTree   = errors.New("reveal: the answers fit no tree of additions")
	errOverflow = errors.New("reveal: the mask overflows")
)

// Reveal is RevealBox of what always answers, in fp32, and holds partial sums in acc.
func Reveal(n int, sum Summer, acc lowp.Format) (Revealed, error) {
	return RevealBox(n, func(x []float32) (float64, error) { return float64(sum(x)), nil }, Formats{Acc: acc})
}

// RevealBox recovers the tree by which a box adds n values whose partial sums are held in some formats.
//
// With +M at i, −M at j and units elsewhere, every unit that meets M before −M does is absorbed: what
// is left counts the leaves outside the smallest subtree of both. The sizes of those subtrees
// determine the tree, also where an adder takes more than two at once. All leaves are compared with one of them that
// is drawn at random, then the leaves of each subtree beside its path among themselves: about n·log₂n questions at most,
// and 2n for a chain, wherever that begins. Of the kids of a fused adder each would be compared with each; once several of them are
// found to be leaves the rest are taken for leaves, which the replay confirms, or else all are asked.
//
// The tree is then replayed on random values of the accumulate format. Where it gives other bits, or there is none, what else the
// box may be is tried: see models.
//
// Errors: n out of range for the formats, and those of the box.
// Source: Xie, Gao & Hong 2024, "FPRev: Revealing the Order of Floating-Point Summation", with a random leaf in place of the first.
func RevealBox(n int, box Box, f Formats) (Revealed, error) {
	p := ProbeFor(f.Acc)
	if n < 1 || n > p.MaxLeaves {
		return Revealed{}, fmt.Errorf("reveal: n = %d: must be from 1 to %d for sums held in %s", n, p.MaxLeaves, f.Acc)
	}
	r := revealer{n: n, box: box, probe: p, x: make([]float32, n), random: uint64(n)}
	found, err := r.judged(f)
	if err == nil && !found.Verified && r.assumed {
		r.every = true
		checks := found.Checks
		found, err = r.judged(f)
		found.Checks += checks
	}
	return found, err
}

// judged recovers the tree and judges it.
func (r *revealer) judged(f Formats) (Revealed, error) {
	n := r.n
	t, _, err := r.build(upTo(0, n, 1), n+1)
	if half := ProbeFor(lowp.FP16); errors.Is(err, errOverflow) && n <= half.MaxLeaves { // the box brings values to fp16
		r.probe = half
		t, _, err = r.build(upTo(0, n, 1), n+1)
	}
	switch {
	case errors.Is(err, errNoTree), errors.Is(err, errOverflow):
		t = Empty
	case err != nil:
		return Revealed{}, err
	}
	half := r.probe.Mask < ProbeFor(f.Acc).Mask || f.Acc == lowp.FP16
	return (&judge{n: n, box: r.box, formats: f, half: half, found: Revealed{Tree: t.canonical(), Calls: r.calls}}).judged()
}

type revealer struct {
	n      int
	box    Box
	probe  Probe
	x      []float32
	random uint64
	calls  int

	every   bool // no kid of a fused adder is taken for a leaf unasked
	assumed bool // some were
}

// aloneMost is how many kids of a fused adder, drawn at random, have to be leaves before those that are left are taken for leaves too.
const aloneMost = 8

// size is the number of leaves under the smallest subtree that holds both i and j.
func (r *revealer) size(i, j int) (int, error) {
	for k := range r.x {
		r.x[k] = r.probe.Unit
	}
	r.x[min(i, j)], r.x[max(i, j)] = r.probe.Mask, -r.probe.Mask
	r.calls++
	sum, err := r.box(r.x)
	if err != nil {
		return 0, err
	}
	outside := sum / float64(r.probe.Unit)
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return 0, errOverflow
	}
	if outside != math.Trunc(outside) || outside < 0 || outside > float64(r.n-2) {
		return 0, errNoTree
	}
	return r.n - int(outside), nil // fits: from 0 to n−2
}

// build is the kid of a node of parent leaves that holds one of the leaves, drawn at random, and the leaves of its siblings:
// those that meet it only at that node.
func (r *revealer) build(leaves []int, parent int) (t Tree, siblings []int, err error) {
	r.random += 0x9e3779b97f4a7c15
	pivot := int(mix(r.random) % uint64(len(leaves)))
	leaves[0], leaves[pivot] = leaves[pivot], leaves[0]
	bySize := map[int][]int{}
	var sizes []int
	for _, j := range leaves[1:] {
		s, err := r.size(leaves[0], j)
		switch {
		case err != nil:
			return Tree{}, nil, err
		case s > parent:
			return Tree{}, nil, errNoTree
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
	for _, s := range sizes { // from the leaf outwards, one node at a time
		rest := bySize[s]
		if have += len(rest); have != s {
			return Tree{}, nil, errNoTree
		}
		kids := []Tree{t}
		for alone := 0; len(rest) > 0; {
			if alone == aloneMost && !r.every {
				r.assumed = true
				for _, leaf := range rest {
					kids = append(kids, Tree{Leaf: leaf})
				}
				break
			}
			var kid Tree
			if kid, rest, err = r.build(rest, s); err != nil {
				return Tree{}, nil, err
			}
			if kids = append(kids, kid); kid.isLeaf() {
				alone++
			}
		}
		t = Tree{Kids: kids}
	}
	return t, siblings, nil
}

// mix is the output of splitmix64 at a state.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
