package tune

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Rings inside a node, the switches from the second on, trees where there are many; channels grow with the message.
func TestChoose(t *testing.T) {
	for _, c := range []struct {
		bytes, ranks, nodes int
		order               string
		channels            int
	}{
		{4, 2, 1, "ring", 1}, {64 << 10, 4, 1, "ring", 1}, {1 << 20, 4, 1, "ring", 8},
		{4, 8, 2, "arrival", 1}, {1 << 20, 8, 2, "arrival", 8}, {256 << 10, 16, 4, "arrival", 4},
		{1 << 30, 8, 2, "ring", 8},
	} {
		order, channels := Choose("all_reduce", c.bytes, c.ranks, c.nodes)
		require.Equal(t, c.order, order, "%+v", c)
		require.Equal(t, c.channels, channels, "%+v", c)
	}
	for nodes := 1; nodes <= 512; nodes *= 2 {
		for bytes := 4; bytes <= 1<<30; bytes *= 4 {
			order, _ := Choose("reduce_scatter", bytes, 4*nodes, nodes)
			require.NotEqual(t, "nccltree", order, "a reduce-scatter has no tree")
		}
	}
	order, _ := Choose("all_reduce", 1<<10, 4096, 1024)
	require.Equal(t, "nccltree", order)
	order, _ = Choose("reduce_scatter", 1<<10, 4096, 1024)
	require.Equal(t, "arrival", order)
}
