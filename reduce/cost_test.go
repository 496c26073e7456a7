package reduce

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What waits while values stream in: a chain's running sum, a sum of each size of a tree by halves, every lane, all values of a chain from the end.
func TestAlive(t *testing.T) {
	for order, want := range map[string]int{"seq": 1, "reverse": 15, "pairwise": 4, "lanes(8)": 8, "blocked(4)": 3, "splitk(4)": 2, "exact": 1, "kahan": 1, "tree((0 1 2 3))": 3} {
		n := 16
		if order[0] == 't' {
			n = 4
		}
		require.Equal(t, want, MustOrder(order).Tree(n).Alive(), order)
	}
	require.Equal(t, 1, Tree{Leaf: 0}.Alive())
	require.Zero(t, Empty.Alive())
}

// A ring and a tree both send a message less than there are ranks; a ring crosses each border of nodes once, and back.
func TestTraffic(t *testing.T) {
	for order, want := range map[string]Traffic{
		"ring(0)":       {Hops: 7, Messages: 7, Between: 2, OfRank: 1},
		"pairwise":      {Hops: 3, Messages: 7, Between: 1, OfRank: 1},
		"nccltree(0,4)": {Hops: 4, Messages: 7, Between: 1, OfRank: 1},
		"symmetric(0)":  {Hops: 1, Messages: 7, Between: 4, OfRank: 1},
		"exact":         {Hops: 1, Messages: 8, Between: 8, OfRank: 1},
		"reverse":       {Hops: 7, Messages: 7, Between: 1, OfRank: 1},
	} {
		got := MustOrder(order).Tree(8).Traffic(4)
		require.Equal(t, want, got, order)
	}
	require.Equal(t, 31, MustOrder("pairwise").Tree(32).Roundings())
	require.Equal(t, 1, MustOrder("exact").Tree(32).Roundings())
}
