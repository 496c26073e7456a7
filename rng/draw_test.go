package rng

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// chi2 is Pearson's statistic of counts that ought to be equal.
func chi2(counts []int) float64 {
	n := 0
	for _, c := range counts {
		n += c
	}
	want, sum := float64(n)/float64(len(counts)), 0.0
	for _, c := range counts {
		d := float64(c) - want
		sum += float64(d*d) / want
	}
	return sum
}

// Six deviations of χ² with so many degrees of freedom.
func limit(counts []int) float64 {
	k := float64(len(counts) - 1)
	return k + float64(6*math.Sqrt(2*k))
}

func TestIntnIsUniform(t *testing.T) {
	s := New(5, "intn")
	for _, n := range []int{1, 2, 3, 7, 10, 64, 100} {
		counts := make([]int, n)
		for range 20000 {
			counts[s.Intn(n)]++
		}
		require.LessOrEqual(t, chi2(counts), limit(counts), "n = %d", n)
	}
	require.Greater(t, chi2([]int{1000, 1000, 1200}), limit(make([]int, 3)), "negative control")
	for range 1000 {
		require.Less(t, s.Intn(math.MaxInt), math.MaxInt)
	}
	for _, n := range []int{0, -1} {
		require.PanicsWithValue(t, "rng: Intn of nothing", func() { s.Intn(n) })
	}
}

func TestFloat64IsUniform(t *testing.T) {
	s := New(5, "float")
	counts := make([]int, 50)
	for range 50000 {
		x := s.Float64()
		require.True(t, x >= 0 && x < 1)
		require.Equal(t, math.Trunc(x*0x1p53), x*0x1p53, "53 bits")
		counts[int(x*50)]++
	}
	require.Less(t, chi2(counts), limit(counts))
}

// Equal shares of the normal distribution fall between its quantiles; moments to the fourth.
func TestNormIsNormal(t *testing.T) {
	s := New(3, "moments")
	const n = 100000
	var m, v, k float64
	counts := make([]int, 40)
	for range n {
		x := s.Norm()
		m += x / n
		v += float64(x*x) / n
		k += float64(float64(x*x)*float64(x*x)) / n
		counts[min(int(40*0.5*math.Erfc(-x/math.Sqrt2)), 39)]++
	}
	require.InDelta(t, 0, m, 6/math.Sqrt(n))
	require.InDelta(t, 1, v, 6*math.Sqrt(2./n))
	require.InDelta(t, 3, k, 6*math.Sqrt(96./n))
	require.Less(t, chi2(counts), limit(counts))
}

// Every permutation of four, equally often.
func TestPermIsUniform(t *testing.T) {
	s := New(1, "perm")
	index, counts := map[[4]int]int{}, make([]int, 24)
	for range 24000 {
		p := [4]int(s.Perm(4))
		if _, ok := index[p]; !ok {
			index[p] = len(index)
		}
		counts[index[p]]++
	}
	require.Len(t, index, 24)
	require.Less(t, chi2(counts), limit(counts))
	require.Empty(t, s.Perm(0))
	require.Equal(t, []int{0}, s.Perm(1))
}

var sink float64

func BenchmarkNorm(b *testing.B) {
	s := New(1, "bench")
	for range b.N {
		sink += s.Norm()
	}
}

func BenchmarkIndexed(b *testing.B) {
	for i := range uint64(b.N) {
		s := New(1, "dropout", i, 3)
		sink += s.Float64()
	}
}
