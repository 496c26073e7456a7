package parallel

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// Nodes have consecutive ranks of the world, so those of a group follow from its stride.
func TestNodesOfAGroup(t *testing.T) {
	for _, c := range []struct {
		layout              Layout
		node, rank          int
		member              func(Rank) Member
		size, nodes, onEach int
	}{
		{Layout{DP: 8}, 4, 0, Rank.DP, 8, 2, 4},
		{Layout{DP: 6}, 4, 5, Rank.DP, 6, 2, 4},
		{Layout{DP: 8}, 1, 0, Rank.DP, 8, 8, 1},
		{Layout{TP: 4, DP: 4}, 4, 7, Rank.TP, 4, 1, 4},
		{Layout{TP: 4, DP: 4}, 4, 7, Rank.DP, 4, 4, 1},
		{Layout{TP: 2, DP: 4}, 4, 1, Rank.DP, 4, 2, 2},
		{Layout{TP: 4, DP: 2}, 3, 4, Rank.TP, 4, 2, 3},
		{Layout{TP: 2, DP: 4}, 3, 0, Rank.DP, 4, 2, 2},
		{Layout{TP: 2, DP: 4}, 3, 1, Rank.DP, 4, 2, 2}, // a node ends between ranks 1 and 3, and yet as that of rank 0
		{Layout{TP: 2, PP: 4}, 4, 3, Rank.PP, 4, 2, 2},
	} {
		m := c.member(NewWorld(c.layout, c.node).Rank(c.rank))
		require.Equal(t, []int{c.size, c.nodes, c.onEach}, []int{m.Size(), m.Nodes(), m.perNode}, "%s of rank %d, %d a node", c.layout, c.rank, c.node)
	}
}

// A chain inside a node adds (((x3 + x2) + x1) + x0), the tree over four nodes x0 + ((x2 + x1) + x3) (docs/facts.md, Collectives).
func TestTreesGoOverTheNodesOfAGroup(t *testing.T) {
	for _, c := range []struct {
		layout Layout
		member func(Rank) Member
		want   float64
	}{
		{Layout{TP: 4, DP: 4}, Rank.TP, 0x1p24 + 4},
		{Layout{TP: 4, DP: 4}, Rank.DP, 0x1p24},
	} {
		w := NewWorld(c.layout, 4)
		got := make([]float64, w.World())
		require.NoError(t, w.Run(func(r Rank) error {
			dev := device.New(device.Options{Rank: r.Index, At: w.At(r.Index)}, planned("ranks:nccltree/fp32"))
			dev.At(1, 0, device.Opt)
			x, m := device.NewTensor(lowp.FP32, 1), c.member(r)
			x.Set(0, []float64{1, 0x1p24, 1, 1}[m.Index])
			got[r.Index] = m.AllReduce(dev, "sum", x).Value(0)
			return nil
		}))
		for _, v := range got {
			require.Equal(t, c.want, v, "%s", c.layout)
		}
	}
}
