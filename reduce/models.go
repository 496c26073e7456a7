package reduce

import (
	"fmt"
	"math"

	"firstbit/lowp"
)

// model is something that a box may be.
type model struct {
	class, detail string
	tree          *Tree // nil: the one that was found
	sum           func(x []float32) float64
}

// models are what a box may be whose tree in the formats that were expected gives other bits, or that has none. The first that gives all
// answers is taken.
//
// A box that loses nothing under the mask has no tree: exact sums and those that add errors up apart. One that loses all but the
// masks has a flat one: fused and binned sums. One that carries the error of the last addition along has that of a chain.
func (j *judge) models() ([]model, error) {
	t := j.found.Tree
	var out []model
	adders := []Adder{Exact, Neumaier}
	if !t.isEmpty() {
		out = append(out, inFormats(classify(t, j.n), &t)...)
		adders = []Adder{Binned, Kahan}
	}
	for _, by := range adders {
		for _, leaves := range [][]int{upTo(0, j.n, 1), upTo(j.n-1, j.n, -1), t.Leaves()} {
			if len(leaves) == j.n {
				whole := adding(by, leaves)
				these := inFormats(by.String(), &whole)
				if by == Binned { // which is exact in fp64
					these = these[:3]
				}
				out = append(out, these...)
			}
		}
	}
	if !fused(t) {
		return out, nil
	}
	adder, err := j.adder(t)
	if err == nil && adder != nil {
		out = append(out, model{class: classFused, detail: adder.String(), sum: func(x []float32) float64 { return float64(adder.sum(t, x)) }})
	}
	return out, err
}

// inFormats is a tree whose partial sums are held in each format, or in fp64 and rounded once, or in fp64 altogether.
func inFormats(class string, t *Tree) []model {
	var out []model
	for _, acc := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP16} {
		out = append(out, model{class, "partial sums in " + acc.String(), t, func(x []float32) float64 { return float64(t.Sum(x, acc)) }})
	}
	wide := func(x []float32) float64 { return t.wide(x) }
	for _, to := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP16} {
		out = append(out, model{class, "partial sums in fp64, rounded to " + to.String() + " once", t, func(x []float32) float64 { return float64(roundedTo(wide(x), to)) }})
	}
	return append(out, model{class, "partial sums in fp64", t, wide})
}

func roundedTo(v float64, to lowp.Format) float32 {
	if math.IsInf(v, 0) || v != v {
		return float32(v)
	}
	return roundOnce(v, to)
}

// wide is the sum by the tree in fp64.
func (t Tree) wide(x []float32) float64 {
	if t.isLeaf() {
		return float64(x[t.Leaf])
	}
	parts := make([]float64, len(t.Kids))
	for i, k := range t.Kids {
		parts[i] = k.wide(x)
	}
	return AddBy(t.By, parts, lowp.FP32)
}

// aligned is how a fused adder does with its addends: they are aligned to the largest, and what lies further down than so many bits below its
// leading one is cut off or rounded; the sum is rounded to nearest or cut.
type aligned struct {
	addends   int
	bits      int
	nearest   bool // addends are rounded, not cut
	truncated bool // the sum is cut, not rounded
	exact     bool // no bit is lost: the accumulator is wide
}

// String is what Revealed says of it.
func (a aligned) String() string {
	in, out := "cut", "rounded to nearest"
	if a.nearest {
		in = "rounded"
	}
	if a.truncated {
		out = "cut"
	}
	if a.exact {
		return fmt.Sprintf("%d addends fuse in a wide accumulator, the sum is %s", a.addends, out)
	}
	return fmt.Sprintf("%d addends fuse, %s to %d bits below the largest one's leading bit, the sum is %s", a.addends, in, a.bits, out)
}

// mostAligned is the number of bits from which on an accumulator counts as wide.
const mostAligned = 40

// adder finds out how the deepest node of many leaves adds; nil: as nothing here.
func (j *judge) adder(t Tree) (*aligned, error) {
	node, ok := fusedLeaves(t)
	if !ok {
		return nil, nil
	}
	x := make([]float32, j.n)
	ask := func(a, b, c float32) (float64, error) {
		clear(x)
		x[node[0]], x[node[1]], x[node[2]] = a, b, c
		return j.question(x)
	}
	a := &aligned{addends: len(node), exact: true}
	for kept := 1; kept <= mostAligned && a.exact; kept++ {
		// 1 − 1 leaves what is kept of 2^−kept.
		got, err := ask(1, -1, float32(math.Exp2(float64(-kept))))
		if err != nil {
			return nil, err
		}
		if got == 0 {
			a.bits, a.exact = kept-1, false
		}
	}
	got, err := ask(1, -1, float32(math.Ldexp(1.5, -a.bits)))
	if err != nil {
		return nil, err
	}
	a.nearest = !a.exact && got == math.Ldexp(2, -a.bits)
	if got, err = ask(1+0x1p-23, 0, 0x1p-24); err != nil { // a tie above an odd number
		return nil, err
	}
	a.truncated = got == 1+0x1p-23 && (a.exact || a.bits >= fusedBits)
	return a, nil
}

// fusedLeaves are the leaves of a node of three of them or more.
func fusedLeaves(t Tree) (leaves []int, ok bool) {
	for _, k := range t.Kids {
		if leaves, ok = fusedLeaves(k); ok {
			return leaves, true
		}
	}
	for _, k := range t.Kids {
		if k.isLeaf() {
			leaves = append(leaves, k.Leaf)
		}
	}
	return leaves, len(leaves) > 2
}

// sum is the sum by a tree whose nodes of many add so.
func (a aligned) sum(t Tree, x []float32) float32 {
	if t.isLeaf() {
		return x[t.Leaf]
	}
	parts := make([]float32, len(t.Kids))
	for i, k := range t.Kids {
		parts[i] = a.sum(k, x)
	}
	switch {
	case len(parts) == 2:
		return parts[0] + parts[1]
	case a.exact && !a.truncated:
		return AddBy(Exact, parts, lowp.FP32)
	}
	cut := math.Trunc
	if a.nearest {
		cut = math.RoundToEven
	}
	sum := alignedSum(parts, a.bits, cut)
	if a.truncated {
		return towardsZero(sum)
	}
	return roundOnce(sum, lowp.FP32)
}

// towardsZero is a float64 cut to fp32.
func towardsZero(v float64) float32 {
	f := float32(v)
	if math.Abs(float64(f)) > math.Abs(v) {
		return math.Nextafter32(f, 0)
	}
	return f
}

// fused says of a fused adder that behaves as that of a Tree what it does.
func (j *judge) fused() error {
	a, err := j.adder(j.found.Tree)
	if err == nil && a != nil {
		j.found.Detail = a.String()
	}
	return err
}
