package moe

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Sorted rows by definition: each row knows its expert, rank and place.
func TestSortChunks(t *testing.T) {
	type row struct{ expert, rank, at int }
	r := rand.New(rand.NewPCG(3, 8))
	for _, c := range []struct{ experts, parts, senders, runs int }{{1, 1, 1, 1}, {3, 1, 4, 1}, {3, 1, 4, 2}, {2, 1, 4, 4}, {3, 2, 3, 1}, {2, 4, 1, 1}} {
		for _, most := range []int{1, 4} {
			counts := make([]int32, c.parts*c.senders*c.experts)
			var rows []row // as received
			longest := 0
			received := make([][]row, c.parts)
			for i := range counts {
				counts[i] = int32(r.IntN(most))
				part, sender := i/c.experts/c.senders, i/c.experts%c.senders
				for range counts[i] {
					received[part] = append(received[part], row{i % c.experts, sender*c.parts + part, len(received[part])})
				}
				longest = max(longest, len(received[part]))
			}
			for part, some := range received {
				for _, x := range some {
					rows = append(rows, row{x.expert, x.rank, part*longest + x.at})
				}
			}
			slices.SortStableFunc(rows, func(a, b row) int {
				return cmp.Or(cmp.Compare(a.expert, b.expert), cmp.Compare(a.rank, b.rank), cmp.Compare(a.at, b.at))
			})
			order, inverse, bounds := make([]int32, len(rows)), make([]int32, c.parts*longest), make([]int32, c.experts*c.runs+1)
			sortChunks(order, inverse, bounds, counts, c.experts, c.parts, longest)
			for i, x := range rows {
				require.Equal(t, int32(x.at), order[i])
				require.Equal(t, int32(i), inverse[x.at])
				run := x.rank / (c.parts * c.senders / c.runs)
				require.GreaterOrEqual(t, int32(i), bounds[x.expert*c.runs+run])
				require.Less(t, int32(i), bounds[x.expert*c.runs+run+1])
			}
			holes := 0
			for _, v := range inverse {
				if v < 0 {
					holes++
				}
			}
			require.Equal(t, len(inverse)-len(rows), holes)
		}
	}
}

func TestPlaceRows(t *testing.T) {
	y := []int32{9, 9, 9, 9, 9, 9}
	placeRows(y, []int32{1, 2, 3, 4}, []int32{1, -1, 0})
	require.Equal(t, []int32{3, 4, 0, 0, 1, 2}, y)
	placeRows(y[:0], nil, nil)
}

// Runs of whole numbers are added apart; what sums held before is nothing.
func TestSumRuns(t *testing.T) {
	sums := []int32{9, 9, 9}
	sumRuns(sums, []int32{1, 2, 3, 4, -5, 6})
	require.Equal(t, []int32{3, 7, 1}, sums)
	sumRuns(sums[:1], []int32{1, 2, 3})
	require.Equal(t, []int32{6, 7, 1}, sums)
	sumRuns(sums, nil)
	require.Equal(t, []int32{0, 0, 0}, sums)
}
