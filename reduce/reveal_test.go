package reduce

import (
	"fmt"
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
				tree := MustOrder(s).Tree(n)
				got, err := Reveal(n, func(x []float32) float32 { return tree.Sum(x, acc) }, acc)
				require.NoError(t, err, "%s n=%d %v", s, n, acc)
				require.True(t, got.Tree.Equal(tree), "%s n=%d %v: %s", s, n, acc, got.Tree)
				require.True(t, got.Verified)
				require.LessOrEqual(t, got.Calls, n*n)
			}
		}
	}
}

func TestRevealNamesTheClass(t *testing.T) {
	for _, s := range []string{"seq", "reverse", "pairwise", "blocked(4)", "lanes(8)", "splitk(5)"} {
		tree := MustOrder(s).Tree(40)
		got, err := Reveal(40, func(x []float32) float32 { return tree.Sum(x, lowp.FP32) }, lowp.FP32)
		require.NoError(t, err)
		require.Equal(t, s, got.Class)
	}
}

func TestRevealFusedAdders(t *testing.T) {
	for _, s := range []string{"(0 1 2 3)", "((0 1 2 3) 4 5 6 7)", "((0 1 2) (3 4 5) (6 7 8))", "(((0 1) 2 3) (4 5))"} {
		want, err := ParseTree(s)
		require.NoError(t, err)
		got, err := Reveal(len(want.Leaves()), func(x []float32) float32 { return want.Sum(x, lowp.FP32) }, lowp.FP32)
		require.NoError(t, err)
		require.True(t, got.Tree.Equal(want), "%s revealed as %s", s, got.Tree)
		require.Equal(t, "fused", got.Class)
		require.True(t, got.Verified)
	}
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
	_, err = Reveal(300, func(x []float32) float32 { return 0 }, lowp.BF16)
	require.ErrorContains(t, err, "from 1 to 256")
	seq32 := Seq.Tree(6)
	got, err = Reveal(6, func(x []float32) float32 { return seq32.Sum(x, lowp.FP32) }, lowp.BF16)
	require.True(t, err != nil || !got.Verified, "an fp32 sum must not verify as a bf16 one")
}
