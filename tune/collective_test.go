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
		order, channels := Choose(c.bytes, c.ranks, c.nodes)
		require.Equal(t, c.order, order, "%+v", c)
		require.Equal(t, c.channels, channels, "%+v", c)
	}
}
