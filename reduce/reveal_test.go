package reduce

import (
	"fmt"
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

// There are (2n−3)!! trees over n leaves. To n = 7 all are revealed, at n = 8 (135,135) every seventh.
func TestRevealEveryTree(t *testing.T) {
	count := 1
	for n := 2; n <= 8; n++ {
		trees := allTrees(upTo(0, n, 1))
		if n > 2 {
			count *= 2*n - 3
		}
		require.Len(t, trees, count)
		for i, want := range trees {
			if n == 8 && i%7 != 0 {
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
	for _, acc := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP16} {
		for _, s := range orders {
			for _, n := range []int{1, 2, 3, 10, 33, 100} {
				if !MustOrder(s).Fits(n) || strings.ContainsAny(MustOrder(s).Tree(n).String(), "abeikn") {
					continue
				}
				tree := MustOrder(s).Tree(n)
				got, err := Reveal(n, func(x []float32) float32 { return tree.Sum(x, acc) }, acc)
				require.NoError(t, err, "%s n=%d %v", s, n, acc)
				require.True(t, got.Tree.Equal(tree), "%s n=%d %v: %s", s, n, acc, got.Tree)
				require.True(t, got.Verified)
				require.LessOrEqual(t, got.Calls, n*(n-1)/2)
			}
		}
	}
}

// A chain from leaf 0 needs one question a leaf, one that ends there all pairs. Pairwise of n = 2^k:
// C(n) = n−1 + C(n/2) + C(n/4) + … + C(1), which is n·k/2.
func TestRevealCountsItsCalls(t *testing.T) {
	for _, c := range []struct {
		order string
		want  int
	}{{"seq", 63}, {"reverse", 64 * 63 / 2}, {"pairwise", 64 * 6 / 2}} {
		tree, calls := MustOrder(c.order).Tree(64), 0
		got, err := Reveal(64, func(x []float32) float32 { calls++; return tree.Sum(x, lowp.FP32) }, lowp.FP32)
		require.NoError(t, err)
		require.Equal(t, c.want, got.Calls, c.order)
		require.Equal(t, calls, got.Calls+8, "all calls but the eight of the replay are counted")
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
		{"perm(7)", 10, "other"}, {"given(0 2 1)", 3, "lanes(2)"}, {"given(1 0 3 2)", 4, "other"},
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
	r := revealer{n: n, sum: func(x []float32) float32 { return tree.Sum(x, acc) }, probe: p, x: make([]float32, n)}
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

// What is no fixed sum is refused, or fails verification.
func TestRevealRefuses(t *testing.T) {
	_, err := Reveal(5, func(x []float32) float32 { return x[0]*2 + 0.5 }, lowp.FP32)
	require.ErrorIs(t, err, ErrNotASum)
	calls := 0
	got, err := Reveal(9, func(x []float32) float32 {
		calls++
		return MustOrder(fmt.Sprintf("perm(%d)", calls)).Tree(9).Sum(x, lowp.FP32)
	}, lowp.FP32)
	require.True(t, err != nil || !got.Verified)
	// Two leaves outside for each pair of 0: subtrees of 2 leaves that would have to hold 4.
	_, err = Reveal(4, func(x []float32) float32 { return 2 }, lowp.FP32)
	require.ErrorIs(t, err, ErrNotASum, "more leaves than the subtree has room for")
	_, err = Reveal(4, func(x []float32) float32 { return 0 }, lowp.FP32)
	require.NoError(t, err, "nothing outside is one fused adder of four")
	_, err = Reveal(4, func(x []float32) float32 {
		if x[0] > 1 && x[1] < 0 {
			return 1
		}
		return 0
	}, lowp.FP32)
	require.ErrorIs(t, err, ErrNotASum, "fewer leaves than the subtree has")
	_, err = Reveal(300, func(x []float32) float32 { return 0 }, lowp.BF16)
	require.ErrorContains(t, err, "from 1 to 256")
	seq32 := Seq.Tree(6)
	got, err = Reveal(6, func(x []float32) float32 { return seq32.Sum(x, lowp.FP32) }, lowp.BF16)
	require.True(t, err != nil || !got.Verified, "an fp32 sum must not verify as a bf16 one")
}
