package reduce

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
)

// However a step's leaves are cut into contiguous shares, the subtrees that each brings add up to the whole tree's sum; shares added by themselves first
// do not.
func TestSubtreesAddUpToTheWhole(t *testing.T) {
	differs := false
	for _, c := range []struct{ n, shares int }{{24, 8}, {24, 3}, {24, 6}, {24, 12}, {24, 24}, {15, 5}, {7, 7}, {21, 3}, {30, 5}, {1, 1}, {8, 2}} {
		x := make([]float32, c.n)
		for i := range x {
			x[i] = 1 / float32(i*i+3)
		}
		var runs []Run
		var sums, shares []float32
		for s := range c.shares {
			lo, hi := s*c.n/c.shares, (s+1)*c.n/c.shares
			own := Subtrees(lo, hi)
			require.LessOrEqual(t, len(own), max(2*bits.Len(uint(hi-lo-1)), 1))
			for _, r := range own {
				sums = append(sums, Pairwise.Tree(r.N).Sum(x[r.Lo:r.Lo+r.N], lowp.FP32))
			}
			runs = append(runs, own...)
			shares = append(shares, Pairwise.Tree(hi-lo).Sum(x[lo:hi], lowp.FP32))
		}
		want := Pairwise.Tree(c.n).Sum(x, lowp.FP32)
		require.Equal(t, want, Pairwise.Over(runs).Tree(len(runs)).Sum(sums, lowp.FP32), "%+v", c)
		differs = differs || want != Pairwise.Tree(len(shares)).Sum(shares, lowp.FP32)
	}
	require.True(t, differs, "negative control: a share is no subtree")
	require.Equal(t, []Run{{3, 1}, {4, 2}}, Subtrees(3, 6))
	require.Equal(t, []Run{{21, 1}, {22, 2}}, Subtrees(21, 24))
	require.Equal(t, "seq", Seq.Over([]Run{{0, 2}, {2, 1}}).String())
}
