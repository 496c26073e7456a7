package reduce

import (
	"fmt"
	"math"
	"strings"

	"firstbit/lowp"
)

// FusedAdder is what a box does where it adds more than two values at once.
type FusedAdder struct {
	Addends int      `json:"addends"` // values that one addition takes besides the sum so far
	Bits    int      `json:"bits"`    // bits below the largest addend's exponent that the others keep
	Aligned string   `json:"aligned"` // what becomes of the bits below: "toward zero", "to nearest" or "down"
	Kept    int      `json:"kept"`    // fraction bits of the result
	Result  string   `json:"result"`  // how it is rounded to those, as Aligned
	Like    []string `json:"like"`    // the tensor cores that add so, by architecture and input
}

// String says it in a sentence without a verb.
func (a FusedAdder) String() string {
	if a.wide() {
		return fmt.Sprintf("%d values at once in a wide accumulator, with %d bits below the largest or more, the result rounded %s", a.Addends, a.Bits, a.Result)
	}
	s := fmt.Sprintf("%d values at once besides the sum so far, each with %d bits below the largest, rounded %s; the result with %d fraction bits, rounded %s",
		a.Addends, a.Bits, a.Aligned, a.Kept, a.Result)
	if len(a.Like) > 0 {
		s += "; as tensor cores of " + strings.Join(a.Like, ", ")
	}
	return s
}

// mostBits is the largest number of bits that ProbeFused looks for: an adder that keeps as many is a wide one.
const mostBits = 60

// ProbeFused asks the box how an adder of more than two works: in one whose addends are all leaves, while the others are zero. False: t has
// none of three leaves or more, or the box answers otherwise than an adder can.
//
// One and its negative leave of a third value what alignment has left of it; three halves twice, and a value of which half a step is odd, show
// how a sum with one bit too many is rounded.
func ProbeFused(t Tree, n int, sum Summer) (a FusedAdder, ok bool) {
	at := innermost(t)
	if len(at) < 3 {
		return a, false
	}
	x := make([]float32, n)
	ask := func(p, q, r float64) float64 {
		clear(x)
		x[at[0]], x[at[1]], x[at[2]] = float32(p), float32(q), float32(r)
		return float64(sum(x))
	}
	a.Addends = len(at)
	for b := 1; b <= mostBits && ask(1, -1, math.Ldexp(1, -b)) != 0; b++ {
		a.Bits = b
	}
	last := math.Ldexp(1, -a.Bits)
	if a.Aligned = cutOf(ask(1, -1, 1.75*last)/last, ask(1, -1, -1.75*last)/last); a.Bits == mostBits {
		a.Aligned = "toward zero" // there is nothing below
	}
	for b := 1; b <= a.Bits && b <= 23 && ask(1, math.Ldexp(1, -b), 0) != 1; b++ {
		a.Kept = b
	}
	// The sum lies in [2, 4), where a step is twice as large, and one and a half steps above 3.
	step := math.Ldexp(1, 1-a.Kept)
	a.Result = cutOf((ask(1.5, 1.5, 1.5*step)-3)/step, (ask(-1.5, -1.5, -1.5*step)+3)/step)
	if a.Aligned == "" || a.Result == "" {
		return a, false
	}
	a.Like = tensorCores(a)
	return a, true
}

// cutOf names the rounding that takes what lies between one and two steps, and is nearer to two or a tie, to these numbers of steps.
func cutOf(up, down float64) string {
	switch [2]float64{up, down} {
	case [2]float64{1, -1}:
		return "toward zero"
	case [2]float64{2, -2}:
		return "to nearest"
	case [2]float64{1, -2}:
		return "down"
	}
	return ""
}

// innermost are the leaves of a node all whose kids are leaves, of those the one with most.
func innermost(t Tree) (leaves []int) {
	all := len(t.Kids) > 0
	for _, k := range t.Kids {
		all = all && k.isLeaf()
		if below := innermost(k); len(below) > len(leaves) {
			leaves = below
		}
	}
	if all && len(t.Kids) > len(leaves) {
		leaves = t.Leaves()
	}
	return leaves
}

// tensorCores are those that add as a does.
func tensorCores(a FusedAdder) (like []string) {
	for _, m := range lowp.MMAs() {
		if m.Terms == a.Addends && m.Fraction == a.Bits && m.Kept == a.Kept && m.Block == 0 && m.Out == lowp.FP32 && a.Aligned == "toward zero" && a.Result == "toward zero" {
			like = append(like, m.Arch+" "+m.Input)
		}
	}
	return like
}

// sumOf is the sum by a tree whose nodes of many add as the adder does: as the tensor cores that add so, if there are some.
func (a FusedAdder) sumOf(t Tree, x []float32) float32 {
	for _, m := range lowp.MMAs() {
		if len(a.Like) > 0 && a.Like[0] == m.Arch+" "+m.Input {
			return t.fusedBy(x, m)
		}
	}
	return a.plain(t, x)
}

// plain is sumOf by the definition of alignment, for results of fp32.
func (a FusedAdder) plain(t Tree, x []float32) float32 {
	if t.isLeaf() {
		return x[t.Leaf]
	}
	parts := make([]float32, len(t.Kids))
	for i, k := range t.Kids {
		parts[i] = a.plain(k, x)
	}
	if len(parts) == 2 {
		return parts[0] + parts[1]
	}
	if a.wide() {
		return AddBy(Exact, parts, lowp.FP32)
	}
	sum := alignedSum(parts, a.Bits, map[string]func(float64) float64{"toward zero": math.Trunc, "to nearest": math.RoundToEven, "down": math.Floor}[a.Aligned])
	f := float32(sum)
	switch {
	case a.Result == "toward zero" && math.Abs(float64(f)) > math.Abs(sum):
		return math.Nextafter32(f, 0)
	case a.Result == "down" && float64(f) > sum:
		return math.Nextafter32(f, float32(math.Inf(-1)))
	}
	return f
}

// wide tells whether the adder loses no bit of values that are not very far apart.
func (a FusedAdder) wide() bool { return a.Bits >= exactBits }

// exactBits is the number of bits up to which alignedSum is exact.
const exactBits = 40

// fusedBy is the sum by m's: of a node the leaves are products with one, and another kid is the accumulator. Two sums meet in fp32.
func (t Tree) fusedBy(x []float32, m *lowp.MMA) float32 {
	if t.isLeaf() {
		return m.Sum(0, []float32{x[t.Leaf]}, []float32{1}, nil, nil)
	}
	var a, ones, sums []float32
	for _, k := range t.Kids {
		if k.isLeaf() {
			a, ones = append(a, x[k.Leaf]), append(ones, 1)
			continue
		}
		sums = append(sums, k.fusedBy(x, m))
	}
	if len(a) == 0 {
		acc := sums[0]
		for _, s := range sums[1:] {
			acc += s
		}
		return acc
	}
	return m.Sum(append(sums, 0)[0], a, ones, nil, nil)
}
