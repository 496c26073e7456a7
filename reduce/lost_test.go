package reduce

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
)

// lostIn answers by what a sum of squares shows.
func lostIn(t Tree, n int) Lost {
	return func(large int, units []int) (bool, error) {
		x := make([]float32, n)
		x[large] = 1
		for _, u := range units {
			x[u] = 0.6 * 0x1p-24
		}
		return t.Sum(x, lowp.FP32) == 1, nil
	}
}

func TestRevealLost(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, order := range []string{"seq", "reverse", "pairwise", "blocked(4)", "lanes(4)", "splitk(3,reverse)", "lanes(8,pairwise)", "perm(7)"} {
		o := MustOrder(order)
		for _, n := range []int{1, 2, 3, 8, 17} {
			got, err := RevealLost(n, lostIn(o.Tree(n), n))
			require.NoError(t, err)
			require.True(t, got.Verified && got.Tree.Equal(o.Tree(n)), "%s over %d: %s", order, n, got.Tree)
		}
	}
	for range 200 {
		n := 2 + r.IntN(40)
		want := randomTree(r, n)
		got, err := RevealLost(n, lostIn(want, n))
		require.NoError(t, err)
		require.True(t, got.Verified && got.Tree.Equal(want), "%s: %s", want, got.Tree)
	}
	for order, class := range map[string]string{"exact": "exact", "neumaier": "exact", "tree((0 1 2 3 4 5 6))": "other"} {
		got, err := RevealLost(7, lostIn(MustOrder(order).Tree(7), 7))
		require.NoError(t, err)
		require.Equal(t, class, got.Class, order)
		require.Equal(t, class == "exact", got.Verified)
	}
	_, err := RevealLost(7, func(int, []int) (bool, error) { return false, errBroken })
	require.ErrorIs(t, err, errBroken)
}
