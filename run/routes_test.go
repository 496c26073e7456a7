package run

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The best one left out is of the groups that a token keeps, and there may be none.
func TestMarginIsOfWhatCouldBeChosen(t *testing.T) {
	r := Routes{K: 1, Index: []int32{0, 2}, Scores: []float64{0.5, 0.25, 0.75, 0.125, 0.5, 0.25, 0.75, 0.125}}
	left := func() []int {
		_, a := r.edge(0)
		_, b := r.edge(1)
		return []int{a, b}
	}
	require.Equal(t, []int{2, 0}, left())
	r.Kept, r.Groups = []int32{0, 1}, 2
	require.Equal(t, []int{1, 3}, left())
	r = Routes{K: 2, Index: []int32{1, 0}, Scores: r.Scores[:4], Kept: []int32{0}, Groups: 2}
	_, _, ok := Margin(&r, &r, 0)
	require.False(t, ok)
	require.Equal(t, 0.25, flipOf(&r, &r, 0).Left, "of the last expert chosen, where there is none")
}
