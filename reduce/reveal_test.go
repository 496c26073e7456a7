package reduce

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
)

// allTrees lists every way to add the leaves: every binary tree, up to swapping kids.
func allTrees(leaves []int) []Tree {
	if len(leaves) == 1 {
		return []Tree{{Leaf: leaves[0]}}
	}
	var out []Tree
	rest := leaves[1:] // the first leaf stays on the left: swapped twins come once
	for mask := range 1<<len(rest) - 1 {
		left, right := []int{leaves[0]}, []int{}
		for i, l := range rest {
			if mask>>i&1 == 1 {
				left = append(left, l)
			} else {
				right = append(right, l)
			}
		}
		for _, a := range allTrees(left) {
			for _, b := range allTrees(right) {
				out = append(out, Node(a, b))
			}
		}
	}
	return out
}

var matrix = flag.Bool("matrix", false, "reveal every tree of eight leaves, and every order of up to 64")

// There are (2n−3)!! trees over n leaves. To n = 7 all are revealed, at n = 8 (135,135) every twenty-ninth, or all with -matrix.
func TestRevealEveryTree(t *testing.T) {
	count := 1
	for n := 2; n <= 8; n++ {
		trees := allTrees(upTo(0, n, 1))
		if n > 2 {
			count *= 2*n - 3
		}
		require.Len(t, trees, count)
		for i, want := range trees {
			if n == 8 && i%29 != 0 && !*matrix {
				continue
			}
			got, err := Reveal(n, func(x []float32) float32 { return want.Sum(x, lowp.FP32) }, lowp.FP32)
			if err != nil || !got.Verified || !got.Tree.Equal(want) {
				t.Fatalf("%s revealed as %s (%v)", want, got.Tree, err)
			}
		}
	}
}

func TestRevealOrders(t *testing.T) {
	lengths := []int{1, 2, 3, 10, 33, 64}
	if *matrix {
		lengths = upTo(1, 64, 1)
	}
	for _, acc := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP16} {
		for _, s := range orders {
			for _, n := range lengths {
				if !MustOrder(s).Fits(n) {
					continue
				}
				tree := MustOrder(s).Tree(n)
				by := wholeAdder(tree)
				if by == Rounded && strings.ContainsAny(tree.String(), "abeikn") {
					continue // of sums that are added otherwise inside others, the answers fit no tree or another
				}
				got, err := Reveal(n, func(x []float32) float32 { return tree.Sum(x, acc) }, acc)
				require.NoError(t, err, "%s n=%d %v", s, n, acc)
				require.True(t, got.Verified, "%s n=%d %v: %+v", s, n, acc, got)
				if by != Binned && (by == Rounded || n > 16) { // sums of a few values may have the bits of a tree, and binned ones those of a fused adder
					require.True(t, got.Tree.Equal(tree), "%s n=%d %v: %s", s, n, acc, got.Tree)
				}
				if !fused(tree) && by == Rounded {
					require.LessOrEqual(t, float64(got.Calls), queries(n), "%s n=%d %v", s, n, acc)
				}
			}
		}
	}
}

// queries is the number of questions about a tree that is not exceeded: 2·n·log₂n, and of few leaves all pairs.
func queries(n int) float64 {
	if n < 4 {
		return float64(n * (n - 1) / 2)
	}
	return 2 * float64(n) * math.Log2(float64(n))
}

// randomTree joins random pairs of sums.
func randomTree(r *rand.Rand, n int) Tree {
	sums := singles(n)
	for len(sums) > 1 {
		r.Shuffle(len(sums), func(i, j int) { sums[i], sums[j] = sums[j], sums[i] })
		sums = append(sums[2:], Node(sums[0], sums[1]))
	}
	return sums[0]
}

// Chains that begin anywhere, and random trees, in few questions.
func TestRevealCountsItsCalls(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{4, 5, 8, 13, 64, 200, 512} {
		trees := []Tree{Seq.Tree(n), Reverse.Tree(n), Pairwise.Tree(n)}
		random := min(100, 4000/n)
		if *matrix {
			random = 1000
		}
		for range random {
			trees = append(trees, randomTree(r, n))
		}
		for _, tree := range trees {
			program, calls := OrderOf(tree).Program(n), 0
			got, err := Reveal(n, func(x []float32) float32 { calls++; return evaluate(program, x) }, lowp.FP32)
			require.NoError(t, err)
			require.True(t, got.Tree.Equal(tree))
			require.LessOrEqual(t, float64(got.Calls), queries(n), "n=%d", n)
			require.Equal(t, calls, got.Calls+got.Checks, "every call is counted")
		}
	}
}

// evaluate runs a program in fp32: a sum that is quick.
func evaluate(p *Program, x []float32) float32 {
	var stack []float32
	for _, s := range p.Steps {
		if s.Join > 0 {
			top := len(stack) - 1
			stack[top-1] += stack[top]
			stack = stack[:top]
			continue
		}
		sum := float32(math.Copysign(0, -1))
		for c := range s.Count {
			at := s.Start + c*s.Stride
			if p.Perm != nil {
				at = int(p.Perm[at])
			}
			sum += x[at]
		}
		stack = append(stack, sum)
	}
	return stack[0]
}

// randomFused is a random tree with adders of up to so many.
func randomFused(r *rand.Rand, n, most int) Tree {
	sums := singles(n)
	for len(sums) > 1 {
		r.Shuffle(len(sums), func(i, j int) { sums[i], sums[j] = sums[j], sums[i] })
		k := min(2+r.IntN(most-1), len(sums))
		sums = append(slices.Clone(sums[k:]), Node(sums[:k:k]...))
	}
	return sums[0]
}

// Where a sum of two hides among many leaves of a fused adder, the replay finds that they are not all leaves.
func TestRevealAsksAllKidsWhereTheReplayFails(t *testing.T) {
	for n := 20; n <= 60; n += 4 {
		want := Node(append(singles(n-2), Node(Tree{Leaf: n - 2}, Tree{Leaf: n - 1}))...)
		got, err := Reveal(n, func(x []float32) float32 { return want.Sum(x, lowp.FP32) }, lowp.FP32)
		require.NoError(t, err)
		require.True(t, got.Tree.Equal(want) && got.Verified, "%s: %s", want, got.Tree)
	}
}

// So do fused adders, of which a chain is a tensor core's; where leaves stand beside sums, all kids of a node are asked.
func TestRevealCountsItsCallsOfFusedAdders(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{4, 8, 18, 33, 64, 130, 512} {
		trees := []Tree{Node(singles(n)...)}
		for _, terms := range []int{4, 8, 16, 32, 64} {
			trees = append(trees, Seq.Program(n).FusedTree(terms))
		}
		for _, most := range []int{3, 5, 9, 17} {
			for range min(20, 400/n) {
				trees = append(trees, randomFused(r, n, most))
			}
		}
		for _, tree := range trees {
			got, err := Reveal(n, func(x []float32) float32 { return tree.Sum(x, lowp.FP32) }, lowp.FP32)
			require.NoError(t, err)
			require.True(t, got.Tree.Equal(tree) && got.Verified, "%s: %s", tree, got.Tree)
			require.LessOrEqual(t, float64(got.Calls), queries(n), "n=%d %s", n, tree)
		}
	}
}

func TestRevealNamesTheClass(t *testing.T) {
	for _, c := range []struct {
		order string
		n     int
		class string
	}{
		{"seq", 1, "seq"}, {"pairwise", 2, "seq"}, {"seq", 40, "seq"}, {"reverse", 40, "reverse"}, {"pairwise", 40, "pairwise"},
		{"blocked(4)", 40, "blocked(4)"}, {"blocked(3)", 40, "blocked(3)"}, {"blocked(100)", 350, "blocked(100)"},
		{"lanes(8)", 40, "lanes(8)"}, {"lanes(2)", 5, "lanes(2)"}, {"splitk(5)", 40, "splitk(5)"}, {"splitk(7)", 40, "splitk(7)"},
		{"splitk(3)", 200, "blocked(67)"}, // three in sequence are also three pairwise: the first name wins
		{"ring(3)", 40, "ring(3)"}, {"ring(39)", 40, "seq"}, {"symmetric(4)", 40, "ring(3)"}, {"nccltree(0)", 40, "nccltree(0)"}, {"nccltree(1)", 41, "nccltree(1)"},
		{"lanes(8,pairwise)", 40, "lanes(8,pairwise)"}, {"blocked(32,pairwise,lanes(8,pairwise))", 128, "blocked(32,pairwise,lanes(8,pairwise))"}, {"splitk(4,reverse)", 64, "blocked(16,reverse)"},
		{"blocked(16,pairwise,reverse)", 64, "blocked(16,pairwise,reverse)"}, {"perm(7)", 10, "other"}, {"given(0 2 1)", 3, "lanes(2)"}, {"given(1 0 3 2)", 4, "other"},
	} {
		tree := MustOrder(c.order).Tree(c.n)
		class := classify(tree, c.n)
		require.Equal(t, c.class, class, "%s n=%d", c.order, c.n)
		if class != "other" {
			require.True(t, MustOrder(class).Tree(c.n).Equal(tree), "%s n=%d is no %s", c.order, c.n, class)
		}
	}
}

func TestRevealFusedAdders(t *testing.T) {
	for _, acc := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP16} {
		for _, s := range []string{"(0 1 2 3)", "((0 1 2 3) 4 5 6 7)", "((0 1 2) (3 4 5) (6 7 8))", "(((0 1) 2 3) (4 5))", "(5 (4 0 2) (3 1))"} {
			want := mustTree(t, s)
			got, err := Reveal(len(want.Leaves()), func(x []float32) float32 { return want.Sum(x, acc) }, acc)
			require.NoError(t, err, "%s in %s", s, acc)
			require.True(t, got.Tree.Equal(want), "%s revealed as %s in %s", s, got.Tree, acc)
			require.Equal(t, "fused", got.Class)
			require.True(t, got.Verified)
		}
	}
}

// The limits ProbeFor gives are good to the last leaf: all units are counted, absorbed, and cut off by a fused adder.
func TestProbesHoldToTheirLimit(t *testing.T) {
	for _, acc := range []lowp.Format{lowp.BF16, lowp.FP16} {
		n := ProbeFor(acc).MaxLeaves
		for _, tree := range []Tree{Seq.Tree(n), Pairwise.Tree(n), {Kids: singles(n)}, Node(Tree{Leaf: 0}, Tree{Leaf: 1}, Chain(upTo(2, n-2, 1)))} {
			for _, j := range []int{1, 2, n / 2, n - 1} {
				got, err := sizeWith(ProbeFor(acc), tree, acc, j)
				require.NoError(t, err)
				require.Equal(t, meet(tree, 0, j), got, "%s: 0 and %d", acc, j)
			}
		}
	}
}

// Units that a fused adder keeps beside the mask look as if they lay outside: the reason for subnormal ones in fp16.
func TestLargeUnitsDoNotFitFusedAdders(t *testing.T) {
	got, err := sizeWith(Probe{Mask: 0x1p15, Unit: 0x1p-8}, mustTree(t, "(0 1 2 3)"), lowp.FP16, 1)
	require.NoError(t, err)
	require.NotEqual(t, 4, got)
}

// sizeWith asks a tree one question: where leaf 0 meets leaf j.
func sizeWith(p Probe, tree Tree, acc lowp.Format, j int) (int, error) {
	n := len(tree.Leaves())
	r := revealer{n: n, box: func(x []float32) (float64, error) { return float64(tree.Sum(x, acc)), nil }, probe: p, x: make([]float32, n)}
	return r.size(0, j)
}

// meet is the number of leaves under the smallest subtree of i and j, by looking.
func meet(t Tree, i, j int) int {
	for _, k := range t.Kids {
		if l := k.Leaves(); slices.Contains(l, i) && slices.Contains(l, j) {
			return meet(k, i, j)
		}
	}
	return len(t.Leaves())
}

// What a box may be besides a tree in the format that was expected.
func TestRevealSaysWhatItIs(t *testing.T) {
	const n = 24
	reveal := func(sum func(x []float32) float64) Revealed {
		got, err := RevealBox(n, func(x []float32) (float64, error) { return sum(x), nil }, Formats{})
		require.NoError(t, err)
		return got
	}
	by := func(o Order, acc lowp.Format) func(x []float32) float64 {
		tree := o.Tree(n)
		return func(x []float32) float64 { return float64(tree.Sum(x, acc)) }
	}
	wide := func(o Order) func(x []float32) float64 {
		tree := o.Tree(n)
		return func(x []float32) float64 { return tree.wide(x) }
	}
	node := FusedAdder{Bits: 26, Aligned: "toward zero", Result: "toward zero"}
	chain := Node(Tree{Leaf: 0}, Tree{Leaf: 1}, Tree{Leaf: 2}, Tree{Leaf: 3})
	for at := 4; at < n; at += 4 {
		chain = Node(chain, Tree{Leaf: at}, Tree{Leaf: at + 1}, Tree{Leaf: at + 2}, Tree{Leaf: at + 3})
	}
	calls := 0
	for name, c := range map[string]struct {
		sum           func(x []float32) float64
		class, detail string
	}{
		"in bf16":                           {by(MustOrder("lanes(4)"), lowp.BF16), "lanes(4)", "partial sums in bf16"},
		"in fp64":                           {wide(Seq), "seq", "partial sums in fp64"},
		"fp64, rounded":                     {func(x []float32) float64 { return float64(float32(wide(Pairwise)(x))) }, "pairwise", "partial sums in fp64, rounded to fp32 once"},
		"exact":                             {by(MustOrder("exact"), lowp.FP32), "exact", "partial sums in fp32"},
		"exact in fp64":                     {wide(MustOrder("exact")), "exact", "partial sums in fp64"},
		"binned":                            {by(MustOrder("binned"), lowp.FP32), "binned", "partial sums in fp32"},
		"kahan":                             {by(MustOrder("kahan"), lowp.FP32), "kahan", "partial sums in fp32"},
		"neumaier":                          {by(MustOrder("neumaier"), lowp.FP32), "neumaier", "partial sums in fp32"},
		"neumaier in fp64, as Python's sum": {wide(MustOrder("neumaier")), "neumaier", "partial sums in fp64"},
		"a tensor core":                     {func(x []float32) float64 { return float64(node.plain(chain, x)) }, "fused", "4 values at once besides the sum so far, each with 26 bits below the largest, rounded toward zero; the result with 23 fraction bits, rounded toward zero"},
		"fused":                             {func(x []float32) float64 { return float64(chain.Sum(x, lowp.FP32)) }, "fused", "4 values at once besides the sum so far, each with 24 bits below the largest, rounded toward zero; the result with 23 fraction bits, rounded to nearest"},
		"in a wide accumulator": {func(x []float32) float64 {
			var kept []float32
			for _, v := range x {
				if math.Abs(float64(v)) > 0x1p-70*largest(x) {
					kept = append(kept, v)
				}
			}
			return float64(AddBy(Exact, kept, lowp.FP32))
		}, "fused", "24 values at once in a wide accumulator, with 60 bits below the largest or more, the result rounded to nearest"},
		"another order each time": {func(x []float32) float64 {
			calls++
			return by(MustOrder(fmt.Sprintf("perm(%d)", calls)), lowp.FP32)(x)
		}, "varies", "the order varies from call to call: the same question has two answers"},
		"the largest": {func(x []float32) float64 { return float64(slices.Max(x)) }, "other", ""},
		"a mean":      {func(x []float32) float64 { return by(Seq, lowp.FP32)(x) / n }, "not a sum", "of these values the sum is 1, whatever the order"},
		"a product": {func(x []float32) float64 {
			p := 1.0
			for _, v := range x {
				p *= float64(v)
			}
			return p
		}, "not a sum", "of these values the sum is 1, whatever the order"},
	} {
		got := reveal(c.sum)
		require.Equal(t, c.class, got.Class, "%s: %+v", name, got)
		detail := got.Detail
		if got.Fused != nil {
			detail += got.Fused.String()
		}
		if c.detail != "" {
			require.Equal(t, c.detail, detail, name)
		}
		fine := got.Class != "varies" && got.Class != "not a sum" && got.Class != "other"
		require.Equal(t, fine, got.Verified, name)
		if !fine && name != "the largest" {
			require.NotNil(t, got.Counter, name)
		}
	}
	_, err := RevealBox(n, func([]float32) (float64, error) { return 0, errBroken }, Formats{})
	require.ErrorIs(t, err, errBroken)
	_, err = Reveal(300, func(x []float32) float32 { return 0 }, lowp.BF16)
	require.ErrorContains(t, err, "from 1 to 256")
}

var errBroken = errors.New("broken")

func largest(x []float32) float64 {
	most := 0.0
	for _, v := range x {
		most = max(most, math.Abs(float64(v)))
	}
	return most
}
