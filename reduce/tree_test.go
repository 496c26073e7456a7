package reduce

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
)

func TestTreeParses(t *testing.T) {
	for _, s := range []string{"0", "(0 1)", "((0 1) (2 3))", "(0 1 2)", "()"} {
		tree, err := ParseTree(s)
		require.NoError(t, err)
		require.Equal(t, s, tree.String())
	}
	for _, s := range []string{"", "(", "(0", "(0)", "(0 1", "(0  1)", "0 1", "(0 1))", "(a b)", "-1", "99999999"} {
		_, err := ParseTree(s)
		require.Error(t, err, s)
	}
	_, err := ParseTree(strings.Repeat("(", 1<<20))
	require.ErrorContains(t, err, "deeply")
}

func TestEqualUpToSwapping(t *testing.T) {
	eq := func(a, b string) bool {
		x, err := ParseTree(a)
		require.NoError(t, err)
		y, err := ParseTree(b)
		require.NoError(t, err)
		return x.Equal(y)
	}
	require.True(t, eq("((0 1) (2 3))", "((3 2) (1 0))"))
	require.False(t, eq("((0 1) (2 3))", "((0 2) (1 3))"))
	require.False(t, eq("((0 1) 2)", "(0 1 2)"))
}

func TestMeasures(t *testing.T) {
	for _, c := range []struct {
		order        string
		depth, slots int
	}{{"seq", 15, 1}, {"pairwise", 4, 4}, {"blocked(4)", 5, 3}, {"lanes(4)", 5, 3}} {
		tree := MustOrder(c.order).Tree(16)
		require.Equal(t, c.depth, tree.Depth(), c.order)
		require.Equal(t, c.slots, tree.Slots(), c.order)
	}
	require.Equal(t, 0, Tree{Leaf: 0}.Depth())
}

// The order is the result: docs/facts.md, Collectives, rank order and the trees on f32 [2^24,1,1,1].
func TestSumIsByTheTree(t *testing.T) {
	x := []float32{1 << 24, 1, 1, 1}
	require.Equal(t, float32(1<<24), Seq.Tree(4).Sum(x, lowp.FP32))
	tree, err := ParseTree("(0 ((2 1) 3))")
	require.NoError(t, err)
	require.Equal(t, float32(16777220), tree.Sum(x, lowp.FP32))
	require.Equal(t, float32(256), Seq.Tree(4).Sum([]float32{256, 1, 1, 1}, lowp.BF16))
	fusedTree, err := ParseTree("(0 1 2 3)")
	require.NoError(t, err)
	require.Equal(t, float32(16777220), fusedTree.Sum(x, lowp.FP32))
	require.True(t, math.Signbit(float64(Empty.Sum(nil, lowp.FP32))))
	neg := []float32{float32(math.Copysign(0, -1))}
	require.True(t, math.Signbit(float64(Seq.Tree(1).Sum(neg, lowp.FP32))), "−0 stays −0")
}

func TestDrawings(t *testing.T) {
	require.Equal(t, "0 ─┐\n1 ─┴─┐\n2 ─┐ │\n3 ─┴─┴─\n", Pairwise.Tree(4).Text())
	require.Equal(t, "0 ─┐\n1 ─┴─┐\n2 ───┴─\n", Seq.Tree(3).Text())
	require.Equal(t, 9, strings.Count(Seq.Tree(10).SVG(), "<circle"))
	require.Equal(t, 18, strings.Count(Seq.Tree(10).DOT(), "->"))
	require.Equal(t, "", Empty.Text())
}

func TestPlan(t *testing.T) {
	p := MustPlan(" k:blocked(64) ; tiles:arrival/bf16/fma; chunk=64;tie=low|native")
	require.Equal(t, "k:blocked(64)/fp32; tiles:arrival/bf16/fma; chunk=64; tie=low", p.String())
	require.True(t, MustPlan(p.String()).Equal(p))
	require.Equal(t, 64, p.Int("chunk"))
	require.Equal(t, "low", p.Choice("tie"))
	require.True(t, p.Reduction("tiles").FMA)
	q, err := p.With(MustPlan("tiles:splitk(2,arrival); tie=native"))
	require.NoError(t, err)
	require.Equal(t, "k:blocked(64)/fp32; tiles:splitk(2,arrival)/fp32; chunk=64; tie=native", q.String())
	for _, bad := range []string{"k:nonsense", "k", "=3", "k=", "k:seq/fp7", "k:seq/int32", "k:seq/fp32/fused", "k:seq; k=3", "a b=3", "k=a b", ":seq",
		"k\nm:seq", "k=a\tb", "k=ä", "k=a=b", "k=a|b", "k:", "k:seq/fp32/fma/fma", "k:seq/fp64", strings.Repeat("x=1;", maxItems+1)} {
		_, err := ParsePlan(bad)
		require.Error(t, err, bad)
	}
	for bad, want := range map[string]string{"m:seq": `no reduction "m"`, "chunk:seq": `no reduction "chunk"`, "k=3": "k=3: is a reduction", "grid=2": `no choice "grid"`,
		"chunk=big": "chunk=big: must be a number from 1 to", "chunk=0": "must be a number", "chunk=-1": "must be a number", "chunk=016": "must be a number",
		"tie=lo": "tie=lo: did you mean low? must be low or native", "tie=3": "tie=3: must be low or native", "tie=low|native": "item"} {
		with, err := ParsePlan(bad)
		if err == nil {
			_, err = p.With(with)
		}
		require.ErrorContains(t, err, want, bad)
	}
	_, err = MustPlan("tie=low").With(MustPlan("tie=native"))
	require.ErrorContains(t, err, "tie=native: must be low", "a word without others is the only one")
	for _, bad := range []string{"tie=|low", "tie=low|", "tie=low||native", "tie=low|high", "ties=low", "chunk=whole", "chunk=16|32"} {
		require.Panics(t, func() { MustPlan(bad) }, bad)
	}
	back, err := q.With(MustPlan("tie=low; tiles:arrival/bf16/fma"))
	require.NoError(t, err, "what a choice may be stays")
	require.True(t, back.Equal(p))
	p.Reductions()[0].Name = "other" // a copy: a plan does not change
	require.Equal(t, []string{"k", "tiles", "chunk", "tie"}, p.Names())
	require.Equal(t, "k:seq/bf16/fma", MustPlan("k : seq / bf16 / fma").String())
	require.Equal(t, "k:seq/mma(hopper); m:blocked(128)/mma(ada,fp16)", MustPlan("k:mma(hopper); m:blocked(128)/mma(ada,fp16)").String())
	for bad, want := range map[string]string{"k:mma(kepler)": `architecture "kepler": must be one of volta`, "k:mma(hopper,bf16)": "accumulator bf16: must be fp32 or fp16",
		"k:seq/mma(hopper)/fma": `"fma": nothing may follow mma(hopper)`, "k:mma(hopper": "mma", "k:seq/fp32/mma(hopper)": "only /fma may follow",
		"k:seq/fp64": "only a sum over ranks", "ranks:seq/fp64@bf16": "neither stores nor sends", "ranks:seq/fp32~fp64": "must be fp32, bf16 or fp16"} {
		_, err := ParsePlan(bad)
		require.ErrorContains(t, err, want, bad)
	}
	require.Panics(t, func() { p.Order("m") })
	require.Zero(t, testing.AllocsPerRun(50, func() { p.Order("tiles"); p.Choice("tie") }))
}

func FuzzParsePlan(f *testing.F) {
	for _, s := range []string{"k:blocked(64)/fp32; tiles:arrival; chunk=64; tie=low", "a=1;b:seq", "k:splitk(2,given(1 0))/fp16/fma", "k:reverse/mma(ada,fp16)", ";;", "k\x00:seq"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePlan(s)
		if err != nil {
			return
		}
		q, err := ParsePlan(p.String())
		require.NoError(t, err)
		require.Equal(t, p.String(), q.String())
	})
}

func FuzzParseTree(f *testing.F) {
	for _, s := range []string{"((0 1) (2 3))", "()", "(0 1 2)", "00", "(0 0)", "(((", "(1048576 0)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tree, err := ParseTree(s)
		if err != nil {
			return
		}
		require.Equal(t, s, tree.String())
		tree.Text() // no drawing may panic
		tree.SVG()
		tree.DOT()
		require.True(t, tree.Equal(tree))
	})
}

func mustTree(t *testing.T, s string) Tree {
	tree, err := ParseTree(s)
	require.NoError(t, err, s)
	return tree
}

func TestTreeRefusesWhatItWouldNotPrint(t *testing.T) {
	for s, why := range map[string]string{"(0 0)": "twice", "((0 1) (2 1))": "twice", "00": "leaf", "(01 2)": "leaf"} {
		_, err := ParseTree(s)
		require.ErrorContains(t, err, why, s)
	}
	require.Equal(t, "3", Tree{Leaf: 3, Kids: []Tree{}}.String(), "without kids it is a leaf")
}

// A fused adder is one rounding of what is left after alignment, and −∞ wins whatever is beside it.
func TestFusedAdderRoundsOnce(t *testing.T) {
	tree := mustTree(t, "(0 1 2)")
	big, inf := float32(math.MaxFloat32), float32(math.Inf(1))
	for _, c := range []struct {
		x    []float32
		acc  lowp.Format
		want float32
		why  string
	}{
		{[]float32{1, 0x1p-8, 0x1p-24}, lowp.BF16, 1 + 0x1p-7, "just above a midpoint of bf16, which a first rounding to fp32 would hit"},
		{[]float32{1, 0x1p-8, 0}, lowp.BF16, 1, "the midpoint itself goes to even"},
		{[]float32{-1, -0x1p-8, -0x1p-24}, lowp.BF16, -1 - 0x1p-7, "the same below zero"},
		{[]float32{1 + 0x1p-7, 0x1p-8, -0x1p-24}, lowp.BF16, 1 + 0x1p-7, "just below a midpoint"},
		{[]float32{1, 0x1p-11, 0x1p-24}, lowp.FP16, 1 + 0x1p-10, "just above a midpoint of fp16"},
		{[]float32{1, 0x1p-24, 0x1p-25}, lowp.FP32, 1, "2^-25 is cut off: what is left is a midpoint"},
		{[]float32{1, 0x1p-24, 0x1p-24}, lowp.FP32, 1 + 0x1p-23, "2^-24 is kept"},
		{[]float32{big, big, -inf}, lowp.FP32, -inf, "finite addends do not overflow beside an infinity"},
		{[]float32{big, big, -big}, lowp.FP32, big, "nor beside each other"},
		{[]float32{big, big, 1}, lowp.BF16, inf, "overflow"},
	} {
		require.Equal(t, math.Float32bits(c.want), math.Float32bits(tree.Sum(c.x, c.acc)), c.why)
	}
	z := float32(math.Copysign(0, -1))
	require.True(t, math.Signbit(float64(tree.Sum([]float32{z, z, z}, lowp.FP32))))
	require.True(t, math.IsNaN(float64(tree.Sum([]float32{inf, -inf, 1}, lowp.FP32))))
}

// The bound is one: no error of a sum of random values exceeds Ulps·u·Σ|x| by more than the terms of second order.
func TestUlpsBoundsTheError(t *testing.T) {
	require.Equal(t, 1+4+1, mustTree(t, "(((0 1) 2 3 4) (5 6 7))").Ulps())
	for _, s := range []string{"(((((0 1) 2) 3) 4) 5)", "((0 1) (2 (3 (4 5))))", "(0 1 2 3 4 5)", "(((0 1 2) 3) 4 5)"} {
		tree := mustTree(t, s)
		for _, acc := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP16} {
			x, seed := make([]float32, 6), uint64(1)
			for range 2000 {
				exact, abs := 0.0, 0.0
				for i := range x {
					seed = seed*6364136223846793005 + 1442695040888963407
					x[i] = acc.Round(float32(int32(seed>>32)) * 0x1p-31)
					exact += float64(x[i])
					abs += math.Abs(float64(x[i]))
				}
				bound := float64(tree.Ulps()) * acc.Unit() * abs * 1.1
				require.LessOrEqual(t, math.Abs(float64(tree.Sum(x, acc))-exact), bound, "%s %v %v", s, acc, x)
			}
		}
	}
}

func TestGraftLeavesOutTheAbsent(t *testing.T) {
	one := func(i int) Tree { return Tree{Leaf: i} }
	g := func(s string, inner ...Tree) string { return Graft(mustTree(t, s), inner).String() }
	require.Equal(t, "((5 6) 7)", g("(0 1)", Node(one(5), one(6)), one(7)))
	require.Equal(t, "(4 5)", g("((0 1) 2)", one(4), Empty, one(5)))
	require.Equal(t, "5", g("((0 1) 2)", Empty, Empty, one(5)))
	require.Equal(t, "()", g("((0 1) 2)", Empty, Empty, Empty))
}

// A folded drawing has the leaves of the tree in its lines, once each, and no more lines than it may have; where all fits nothing is folded.
func TestFolded(t *testing.T) {
	for _, text := range orders {
		o, err := ParseOrder(text)
		require.NoError(t, err)
		for _, n := range []int{1, 20, 21, 70} {
			if o.Check(n) != nil {
				continue
			}
			tree := o.Tree(n)
			f := tree.Folded(20)
			if n <= 20 {
				require.Equal(t, tree, f)
				continue
			}
			shown := 0
			f.each(func(leaf Tree) {
				if leaf.folded != nil {
					shown += leaf.folded.count() - 1
				}
				shown++
			})
			require.Equal(t, n, shown, text)
			require.LessOrEqual(t, strings.Count(f.Text(), "\n"), 20, text)
		}
	}
	pairwise, err := ParseOrder("pairwise")
	require.NoError(t, err)
	require.Equal(t, "0 1 … 3: 4 by depth 2 ─┐\n    4 5: 2 by depth 1 ─┴─\n", pairwise.Tree(6).Folded(2).Text())
}

func (t Tree) each(leaf func(Tree)) {
	if t.isLeaf() {
		leaf(t)
	}
	for _, k := range t.Kids {
		k.each(leaf)
	}
}
