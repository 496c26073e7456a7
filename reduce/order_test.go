package reduce

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var orders = []string{"seq", "reverse", "pairwise", "blocked(1)", "blocked(4)", "blocked(64)", "lanes(1)", "lanes(4)", "lanes(8)", "lanes(32)",
	"splitk(1)", "splitk(3)", "splitk(4)", "splitk(4,reverse)", "splitk(5,pairwise)", "perm(7)", "perm(0)"}

// The program is what kernels run, the tree what it means; each is made on its own.
func TestProgramsAddByTheirTree(t *testing.T) {
	for _, s := range orders {
		o := MustOrder(s)
		for n := range 71 {
			require.Equal(t, o.Tree(n).String(), o.Program(n).Tree().String(), "%s n=%d", s, n)
			leaves := map[int]bool{}
			for _, l := range o.Tree(n).Leaves() {
				leaves[l] = true
			}
			require.Len(t, leaves, n, "%s n=%d: every leaf once", s, n)
		}
	}
}

// The comment of Order prints each tree for n = 10; it must be the real one.
func TestDocumentedTrees(t *testing.T) {
	src, err := os.ReadFile("order.go")
	require.NoError(t, err)
	lines := regexp.MustCompile(`(?m)^//\t(\w+(?:\(\d+\))?) +(\(.*\))$`).FindAllStringSubmatch(string(src), -1)
	require.Len(t, lines, 7)
	for _, l := range lines {
		require.Equal(t, MustOrder(l[1]).Tree(10).String(), l[2], l[1])
	}
}

func TestParsePrints(t *testing.T) {
	for _, s := range append(orders, "arrival", "splitk(4,arrival)", "given(2 0 1)", "splitk(2,splitk(2,arrival))") {
		o, err := ParseOrder(s)
		require.NoError(t, err)
		require.Equal(t, s, o.String())
	}
	require.Equal(t, "seq", Order{}.String())
	for _, s := range []string{"", "sequence", "blocked", "blocked()", "blocked(0)", "blocked(-1)", "lanes(3)", "seq()", "seq(1)", "perm(x)",
		"given(0 0)", "given(1 2)", "given(0  1)", "splitk(4", "blocked(4,seq)", "splitk(4,unknown)", "lanes(99999999999)"} {
		_, err := ParseOrder(s)
		require.ErrorContains(t, err, "allowed are", s)
	}
}

func TestResolveWritesArrivalOut(t *testing.T) {
	c := Context{Arrival: func(n int) []int { return MustOrder("reverse").Tree(n).Leaves() }}
	require.Equal(t, "given(2 1 0)", Arrival.Resolve(c, 3).String())
	require.Equal(t, "splitk(4,given(3 2 1 0))", MustOrder("splitk(4,arrival)").Resolve(c, 10).String())
	require.Equal(t, "seq", Seq.Resolve(c, 3).String())
	require.False(t, MustOrder("splitk(4,arrival)").Concrete())
	require.Panics(t, func() { Arrival.Tree(2) })
	require.Panics(t, func() { MustOrder("given(1 0)").Tree(3) })
}

func TestProgramIsCachedWithoutAllocation(t *testing.T) {
	o := MustOrder("blocked(64)")
	o.Program(1000)
	require.Zero(t, testing.AllocsPerRun(100, func() { o.Program(1000) }))
}

func BenchmarkProgramCached(b *testing.B) {
	o := MustOrder("blocked(64)")
	for range b.N {
		o.Program(1000)
	}
}

func FuzzParseOrder(f *testing.F) {
	for _, s := range orders {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, err := ParseOrder(s)
		if err != nil {
			return
		}
		p, err := ParseOrder(o.String())
		require.NoError(t, err)
		require.Equal(t, o.String(), p.String())
	})
}
