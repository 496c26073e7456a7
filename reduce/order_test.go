package reduce

import (
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var orders = []string{"seq", "reverse", "pairwise", "blocked(1)", "blocked(4)", "blocked(64)", "lanes(1)", "lanes(4)", "lanes(8)", "lanes(32)",
	"segments(1)", "segments(3)", "segments(8)", "segments(64)", "splitk(1)", "splitk(3)", "splitk(4)", "splitk(4,reverse)", "splitk(5,pairwise)", "splitk(7,lanes(2))",
	"splitk(6,splitk(2))", "splitk(9,perm(3))", "splitk(4,blocked(2))", "perm(7)", "perm(0)",
	"ring(0)", "ring(1)", "ring(5)", "symmetric(0)", "symmetric(4)", "nccltree(0)", "nccltree(1)", "nccltree(0,4)", "nccltree(1,3)", "nccltree(1,8)",
	"splitk(4,nccltree(1))",
	"blocked(4,seq)", "blocked(4,pairwise,exact)", "blocked(3,exact)", "lanes(4,seq)", "lanes(8,lanes(2))", "lanes(4,lanes(2),reverse)", "segments(8,seq)", "segments(5,exact,perm(3))",
	"splitk(4,seq,pairwise)", "splitk(3,ring(1),lanes(4))", "splitk(4,kahan,blocked(2,binned,neumaier))", "exact", "binned", "kahan", "neumaier",
	"tree(0)", "tree((1 0))", "tree(((0 2) (1 3)))", "tree((0 1 2 3))", "tree((((0 1 2) 3) (exact(6 4 5) 7)))", "tree(kahan(0 1 2))", "splitk(4,tree((3 (0 2) 1)))", "blocked(4,tree((kahan(2 1 0) 3)))"}

// The program is what kernels run, the tree what it means; each is made on its own.
func TestProgramsAddByTheirTree(t *testing.T) {
	for _, s := range orders {
		o := MustOrder(s)
		for n := range 71 {
			if !o.Fits(n) {
				continue
			}
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
	lines := regexp.MustCompile(`(?m)^//\t(\w+(?:\(\d+(?:,\d+)?\))?) +(\(.*\))$`).FindAllStringSubmatch(string(src), -1)
	require.Len(t, lines, 13)
	for _, l := range lines {
		require.Equal(t, MustOrder(l[1]).Tree(10).String(), l[2], l[1])
	}
}

func TestParsePrints(t *testing.T) {
	for _, s := range append(orders, "arrival", "splitk(4,arrival)", "given(2 0 1)", "splitk(2,splitk(2,arrival))", "ring", "nccltree", "symmetric", "splitk(2,ring)") {
		o, err := ParseOrder(s)
		require.NoError(t, err)
		require.Equal(t, s, o.String())
	}
	require.Equal(t, "seq", Order{}.String())
	for _, s := range []string{"", "sequence", "blocked", "blocked()", "blocked(0)", "blocked(-1)", "lanes(3)", "seq()", "seq(1)", "perm(x)",
		"given(0 0)", "given(1 2)", "given(0  1)", "splitk(4", "blocked(4,)", "blocked(4,seq,arrival)", "blocked(4,seq,seq,seq)", "tree", "tree()", "tree(())", "tree((0 2))", "tree((0 0))", "tree((0 1)", "tree(sum(0 1))", "exact(3)", "splitk(4,unknown)", "lanes(99999999999)",
		"ring()", "ring(-1)", "ring(x)", "ring(1048576)", "nccltree(2)", "nccltree(0,0)", "nccltree(0,)", "nccltree(0,4,4)", "symmetric(1", "ring(0,4)", "splitk(4,)", "splitk(,seq)", strings.Repeat("splitk(2,", 1<<16) + "pairwise" + strings.Repeat(")", 1<<16)} {
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
	lengths := []int{1000, 96, 0, 7} // a plan serves several widths of a model at once
	get := func() {
		for _, n := range lengths {
			o.Program(n)
		}
	}
	get()
	require.Zero(t, testing.AllocsPerRun(100, get))
	for n := range 100 { // more than the cache holds
		require.Equal(t, n, o.Program(n).N)
	}
	require.Len(t, *o.cache.list.Load(), cacheSize)
	require.Panics(t, func() { o.Program(-1) })
}

func TestProgramIsSafeForConcurrentUse(t *testing.T) {
	o := MustOrder("lanes(8)")
	var wg sync.WaitGroup
	wrong := make([]int, 8)
	for g := range wrong {
		wg.Go(func() {
			for i := range 2000 {
				n := 1 + (i*7+g)%40
				if p := o.Program(n); p.N != n || p.Tree().String() != o.Tree(n).String() {
					wrong[g]++
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, make([]int, 8), wrong)
}

// InOrder is the hot path of kernels: one chain over 0, 1, …, n−1, however the order is written.
// It says nothing of a program that only has the same tree: pairwise of 2 is two chains and a join.
func TestInOrder(t *testing.T) {
	for _, s := range append(orders, "given(0 1 2 3)", "given(3 2 1 0)") {
		o := MustOrder(s)
		for n := 1; n < 70; n++ {
			if !o.Fits(n) {
				continue
			}
			p := o.Program(n)
			plain := len(p.Steps) == 1 && p.Tree().String() == Seq.Tree(n).String()
			require.Equal(t, plain, p.InOrder, "%s n=%d", s, n)
		}
	}
	for _, s := range []string{"seq", "blocked(4)", "splitk(1)", "given(0 1 2 3)"} {
		require.True(t, MustOrder(s).Program(4).InOrder, s)
	}
	for _, s := range []string{"reverse", "pairwise", "lanes(2)", "given(3 2 1 0)", "given(0 1 3 2)"} {
		require.False(t, MustOrder(s).Program(4).InOrder, s)
	}
	require.Panics(t, func() { MustOrder("given(1 0)").Program(3) })
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
