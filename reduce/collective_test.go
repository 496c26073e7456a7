package reduce

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
)

// docs/facts.md, Collectives: the trees printed there.
func TestDoubleBinaryTreesAreThePrintedOnes(t *testing.T) {
	for n, want := range map[int][2]string{
		4: {"(0 ((2 1) 3))", "(3 ((1 2) 0))"},
		5: {"(0 (4 ((2 1) 3)))", "(1 (0 ((3 2) 4)))"},
		8: {"(0 ((4 ((2 1) 3)) ((6 5) 7)))", "(7 ((3 ((5 6) 4)) ((1 2) 0)))"},
		1: {"0", "0"},
		2: {"(0 1)", "(1 0)"},
	} {
		for tree := range want {
			require.Equal(t, want[tree], MustOrder(fmt.Sprintf("nccltree(%d)", tree)).Tree(n).String())
		}
	}
}

// docs/facts.md, Collectives: the known answers. Every partial sum is rounded to the tensor's format. Columns: chunks of a ring, the two
// trees, rank order, and the exact sum.
func TestCollectivesKnownAnswers(t *testing.T) {
	const u = 0x1p-8
	for _, c := range []struct {
		acc   lowp.Format
		x     []float32
		ring  []float32
		trees [2]float32
		rank  float32
		exact float64
	}{
		{lowp.BF16, []float32{256, 1, 1, 1}, []float32{260, 260, 256, 256}, [2]float32{260, 260}, 256, 259},
		{lowp.FP32, []float32{1 << 24, 1, 1, 1}, []float32{16777220, 16777220, 16777216, 16777216}, [2]float32{16777220, 16777220}, 16777216, 16777219},
		{lowp.FP32, []float32{1e8, 1, -1e8, 1}, []float32{0, 1, 0, 1}, [2]float32{0, 1}, 1, 2},
		{lowp.BF16, []float32{256, 1, 1, 1, -256, 1, 1, 1}, []float32{6, 6, 6, 6, 4, 5, 2, 3}, [2]float32{6, 6}, 3, 6},
		{lowp.BF16, []float32{1, u, u, u, u}, []float32{1.015625, 1.015625, 1.015625, 1, 1}, [2]float32{1.015625, 1.015625}, 1, 1.015625},
	} {
		n := len(c.x)
		for chunk, want := range c.ring {
			require.Equal(t, want, sum(fmt.Sprintf("ring(%d)", chunk), c.x, c.acc), "ring(%d) of %v in %s", chunk, c.x, c.acc)
		}
		for tree, want := range c.trees {
			require.Equal(t, want, sum(fmt.Sprintf("nccltree(%d)", tree), c.x, c.acc), "nccltree(%d) of %v in %s", tree, c.x, c.acc)
		}
		require.Equal(t, c.rank, sum("seq", c.x, c.acc))
		require.Equal(t, c.rank, sum(fmt.Sprintf("ring(%d)", n-1), c.x, c.acc), "the last chunk is in rank order")
		exact := 0.0
		for _, v := range c.x {
			exact += float64(v)
		}
		require.Equal(t, c.exact, exact)
	}
	x := []float32{.1, .2, .3, .4}
	for chunk, want := range []uint32{0x3f800000, 0x3f800001, 0x3f800000, 0x3f800000} {
		require.Equal(t, want, math.Float32bits(sum(fmt.Sprintf("ring(%d)", chunk), x, lowp.FP32)), "chunk %d", chunk)
	}
	for _, o := range []string{"nccltree(0)", "nccltree(1)", "seq"} {
		require.Equal(t, uint32(0x3f800000), math.Float32bits(sum(o, x, lowp.FP32)), o)
	}
	// Were the hops of a bf16 sum held in fp32 and rounded at the end, the ring would not be what the table says.
	wide := lowp.BF16.Round(sum("ring(2)", []float32{256, 1, 1, 1}, lowp.FP32))
	require.NotEqual(t, sum("ring(2)", []float32{256, 1, 1, 1}, lowp.BF16), wide)
}

func sum(order string, x []float32, acc lowp.Format) float32 {
	return MustOrder(order).Tree(len(x)).Sum(x, acc)
}

// The definitions, index by index.
func TestRingsAndOwners(t *testing.T) {
	for n := 1; n <= 33; n++ {
		for part := range n {
			ringed, owned := make([]int, 0, n), make([]int, 0, n)
			for i := range n {
				ringed, owned = append(ringed, (part+1+i)%n), append(owned, (part+i)%n)
			}
			require.Equal(t, Chain(ringed), MustOrder(fmt.Sprintf("ring(%d)", part)).Tree(n))
			require.Equal(t, Chain(owned).String(), MustOrder(fmt.Sprintf("symmetric(%d)", part)).Tree(n).String())
		}
	}
}

// Inside a node the ranks are a chain towards its first, which then adds the nodes below: the last node may be short.
func TestTreesOverNodes(t *testing.T) {
	require.True(t, MustOrder("nccltree(0,4)").Tree(8).Equal(mustTree(t, "((0 (1 (2 3))) (4 (5 (6 7))))")))
	require.True(t, MustOrder("nccltree(1,4)").Tree(8).Equal(mustTree(t, "((0 (1 (2 3))) (4 (5 (6 7))))")))
	require.True(t, MustOrder("nccltree(0,2)").Tree(7).Equal(mustTree(t, "((0 1) (((4 5) (2 3)) 6))")))
	require.True(t, MustOrder("nccltree(0,8)").Tree(5).Equal(mustTree(t, "(0 (1 (2 (3 4))))")))
	for _, node := range []int{1, 2, 3, 8} {
		for nodes := 1; nodes <= 20; nodes++ { // node i's ranks stand where rank i stands without nodes
			for tree := range 2 {
				over := MustOrder(fmt.Sprintf("nccltree(%d,%d)", tree, node)).Tree(nodes * node)
				inner := make([]Tree, nodes)
				for i := range inner {
					inner[i] = Chain(upTo(i*node+node-1, node, -1))
				}
				plain := MustOrder(fmt.Sprintf("nccltree(%d)", tree)).Tree(nodes)
				require.True(t, Graft(plain, inner).Equal(over), "%d nodes of %d", nodes, node)
			}
		}
	}
}

// What the double binary tree is for: whoever has kids in one tree has none in the other, but for one rank of an odd
// number; no rank has more than two, and the depth is logarithmic.
func TestDoubleBinaryTreesShareTheWork(t *testing.T) {
	for n := 2; n <= 300; n++ {
		a, b := newDouble(n, 1, 0), newDouble(n, 1, 1)
		both := 0
		for r := range n {
			require.Equal(t, r, b.mapped(b.unmapped(r)))
			require.LessOrEqual(t, max(len(a.kids(r)), len(b.kids(r))), 2)
			if len(a.kids(r)) > 0 && len(b.kids(r)) > 0 {
				both++
			}
		}
		require.LessOrEqual(t, both, n%2, "n = %d", n)
		require.LessOrEqual(t, a.tree(a.root).Depth(), 2*len(fmt.Sprintf("%b", n)))
	}
}

func TestResolvePlaces(t *testing.T) {
	for _, c := range []struct {
		order string
		at    Context
		want  string
	}{
		{"ring", Context{Part: 2}, "ring(2)"},
		{"ring", Context{Part: 2, Ring: []int{0, 1, 2, 3}}, "ring(2)"},
		{"ring", Context{Part: 2, Ring: []int{2, 0, 3, 1}}, "given(1 2 0 3)"}, // from the rank after position 2 around to it
		{"ring", Context{Part: 3, Ring: []int{2, 0, 3, 1}}, "given(2 0 3 1)"},
		{"symmetric", Context{Part: 3, Ring: []int{2, 0, 3, 1}}, "symmetric(3)"},
		{"nccltree", Context{Part: 1}, "nccltree(1)"},
		{"nccltree", Context{Part: 1, Node: 1}, "nccltree(1)"},
		{"nccltree", Context{Part: 1, Node: 2}, "nccltree(1,2)"},
		{"splitk(4,ring)", Context{Part: 1}, "splitk(4,ring(1))"},
		{"ring(1)", Context{Part: 2}, "ring(1)"},
		{"seq", Context{Part: 2}, "seq"},
	} {
		got := MustOrder(c.order).Resolve(c.at, 4)
		require.Equal(t, c.want, got.String())
		require.True(t, got.Concrete())
		again := MustOrder(got.String())
		require.Equal(t, again.Tree(4).String(), got.Tree(4).String())
		require.Equal(t, again.Tree(4).String(), got.Program(4).Tree().String())
	}
	for _, bad := range []Context{{Part: 4}, {Part: -1}, {Ring: []int{1, 0}}} {
		require.Panics(t, func() { MustOrder("ring").Resolve(bad, 4) })
	}
	require.Panics(t, func() { MustOrder("nccltree").Resolve(Context{Part: 2}, 4) })
}

func TestWhatDependsOnThePlaceMustSayIt(t *testing.T) {
	for _, s := range []string{"ring", "nccltree", "symmetric", "splitk(2,ring)"} {
		o := MustOrder(s)
		require.False(t, o.Concrete(), s)
		require.False(t, o.Fits(4), s)
		require.ErrorContains(t, o.Check(4), "say ring(c), nccltree(t), nccltree(t,node) or symmetric(r)", s)
		require.Panics(t, func() { o.Tree(4) }, s)
		require.Panics(t, func() { o.Program(4) }, s)
		require.False(t, MustPlan("ranks:"+s).Varies(), "%s is no arrival", s)
	}
	require.True(t, MustPlan("ranks:splitk(2,arrival)").Varies())
	require.True(t, MustPlan("ranks:ring; tiles:arrival").Varies())
	require.ErrorContains(t, MustOrder("ring(4)").Check(4), "is not an order of 4 values")
	require.NoError(t, MustOrder("ring(3)").Check(4))
	require.NoError(t, MustOrder("ring(0)").Check(0))
	require.NoError(t, MustOrder("nccltree(1)").Check(1))
	require.False(t, MustOrder("splitk(4,ring(3))").Fits(3), "three slices have no chunk 3")
	require.Panics(t, func() { MustOrder("ring(4)").Tree(4) })
	require.Panics(t, func() { MustOrder("ring(4)").Program(4) })
	require.Equal(t, "nccltree(1)", MustOrder("nccltree(1,1)").String(), "a node of one rank is no node")
}

// First is what kernels know a rotated chain by.
func TestProgramsKnowTheirRotation(t *testing.T) {
	for n := 1; n < 20; n++ {
		for c := range n {
			p := MustOrder(fmt.Sprintf("ring(%d)", c)).Program(n)
			require.Equal(t, (c+1)%n, p.First)
			require.Equal(t, p.First == 0, p.InOrder)
			leaves := p.Tree().Leaves()
			require.Equal(t, p.First, leaves[0])
			require.True(t, slices.IsSorted(rotated(leaves, n-p.First)))
		}
	}
	require.Zero(t, MustOrder("given(1 2 0)").Program(3).First+MustOrder("reverse").Program(3).First)
}
