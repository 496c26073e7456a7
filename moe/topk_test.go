package moe

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
)

// topK against a sort by its definition, on scores full of ties, with NaN among them, for every k and both rules.
func TestTopKIsItsDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	values := []float32{0, float32(math.Copysign(0, -1)), 1, 2, float32(math.NaN()), float32(math.Inf(-1)), float32(math.Inf(1))}
	for _, e := range []int{1, 5, 33, 70} {
		for _, tie := range []tie{tieLow, tieNaive} {
			scores := make([]float32, 3*e)
			for i := range scores {
				scores[i] = values[r.IntN(len(values))]
			}
			for k := 1; k <= e; k++ {
				index := make([]int32, 3*k)
				topK(index, scores, nil, e, k, tie)
				for row := range 3 {
					require.Equal(t, sorted(scores[row*e:][:e], tie)[:k], index[row*k:][:k], "%d of %d, rule %d", k, e, tie)
				}
			}
		}
	}
}

// sorted is all indices, the best first.
func sorted(s []float32, tie tie) []int32 {
	index := make([]int32, len(s))
	for i := range index {
		index[i] = int32(i)
	}
	key := func(i int32) int { // docs/facts.md, Kernels
		if tie == tieLow {
			return int(i)
		}
		reversed := 0
		for bit := range 5 {
			reversed |= int(i) % 32 >> bit & 1 << (4 - bit)
		}
		return reversed*1000 + int(i)/32
	}
	sort.Slice(index, func(x, y int) bool {
		a, b := s[index[x]], s[index[y]]
		switch {
		case a > b || a == a && b != b:
			return true
		case a < b || a != a && b == b:
			return false
		case a != a: // NaNs are equal to nothing: the rule for ties does not speak of them
			return index[x] < index[y]
		}
		return key(index[x]) < key(index[y])
	})
	return index
}

// Sorted slots hold the same experts, whatever the kernel left.
func TestSortSlots(t *testing.T) {
	index := []int32{7, 0, 3, 5, 4, 6}
	sortSlots(index, 3)
	require.Equal(t, []int32{0, 3, 7, 4, 5, 6}, index)
}

// docs/facts.md, Kernels: which of two equal experts each kernel takes.
func TestTopKTies(t *testing.T) {
	for _, c := range []struct{ a, b, naive int }{{1, 2, 2}, {3, 4, 4}, {8, 16, 16}, {1, 32, 32}} {
		scores := make([]float32, 40)
		scores[c.a], scores[c.b] = 1, 1
		index := make([]int32, 1)
		topK(index, scores, nil, 40, 1, tieNaive)
		require.EqualValues(t, c.naive, index[0], "naive {%d,%d}", c.a, c.b)
		topK(index, scores, nil, 40, 1, tieLow)
		require.EqualValues(t, c.a, index[0], "radix {%d,%d}", c.a, c.b)
	}
	index := make([]int32, 3)
	topK(index, []float32{0.1, 0.5, 0.3, 0.4}, []float32{1, 0, 0, 0}, 4, 3, tieLow)
	require.Equal(t, []int32{0, 1, 3}, index, "descending by score + bias")
	nan := float32(math.NaN())
	topK(index, []float32{nan, 1, nan, 2}, nil, 4, 3, tieLow)
	require.Equal(t, []int32{3, 1, 0}, index, "NaN is below every number")
}
