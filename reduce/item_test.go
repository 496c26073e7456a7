package reduce

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// What differs between plans has the class that the table gives it, ties before topology; what only one of them has, an order, and an item that no
// kernel here has, are a tuner's.
func TestClassOfADifference(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want Class
	}{
		{"", "", Tuner},
		{"k:seq", "k:reverse", Tuner},
		{"slots=value", "slots=index", Tuner},
		{"tie=native", "tie=low", Tie},
		{"tie=native", "", Tuner},
		{"ring=1", "ring=2", Topology},
		{"communicators=1; channels=1", "communicators=2; channels=4", Topology},
		{"ring=1; tie=low", "ring=2; tie=native", Tie},
		{"fused=true; tie=native", "fused=false; tie=native", Tie},
		{"fused=true; tie=low", "fused=false; tie=low", Tuner},
		{"fused=true", "fused=false", Tuner},
		{"theirs=a", "theirs=b", Tuner},
		{"k:mma(ampere)", "k:mma(hopper)", Topology},
		{"k:seq", "k:mma(hopper)", Tuner},
		{"k:mma(hopper)", "k:blocked(128)/mma(hopper)", Tuner},
	} {
		p, err := ParsePlan(c.a)
		require.NoError(t, err)
		q, err := ParsePlan(c.b)
		require.NoError(t, err)
		require.Equal(t, c.want, Difference(p, q), "%q and %q", c.a, c.b)
	}
}

// Bits vary with arrival through an order, or through the word of an item that says so: not through the same word of another item.
func TestVaries(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "k:seq; sched=static": false, "k:arrival": true, "k:splitk(2,arrival)": true, "k:seq; sched=dynamic": true, "sched=each": false,
		"theirs=dynamic": false, "slots=dynamic": false,
	} {
		p, err := ParsePlan(text)
		require.NoError(t, err)
		require.Equal(t, want, p.Varies(), text)
	}
}

// The table names each item once, and races and conditions are of its own words.
func TestItems(t *testing.T) {
	require.True(t, slices.IsSortedFunc(items, func(a, b item) int {
		if a.name < b.name {
			return -1
		}
		return 1
	}))
	for _, i := range items {
		require.True(t, i.races == "" || slices.Contains(i.words, i.races), i.name)
		if i.where != "" {
			require.NotPanics(t, func() { MustPlan(i.where) }, i.name)
		}
	}
}
