package verify

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/parallel"
	"firstbit/run"
	"firstbit/train"
)

// A run repeats unless something follows arrival. What parts on one rank alone is found on that rank, after the step in which it did, and the
// second run ends there.
func TestRepeat(t *testing.T) {
	repeat := func(layout string, plans ...string) (Cell, int) {
		l, err := parallel.ParseLayout(layout)
		require.NoError(t, err)
		s := run.Spec{Config: train.Tiny(), Layout: l, Plans: plans}
		s.Config.Steps, s.Config.Optim.Clip = 4, 0 // else the norm brings a difference to every rank
		require.NoError(t, s.Check())
		steps := 0
		cell, err := Repeat(s, 3, func() { steps++ })
		require.NoError(t, err)
		require.Equal(t, cell.OK, cell.Why == nil)
		return cell, steps
	}
	for _, layout := range RepeatLayouts {
		cell, steps := repeat(layout)
		require.True(t, cell.OK, "%s: %v", layout, cell.Why)
		require.Equal(t, 12, steps)
		require.Len(t, cell.Hash, 32)
	}
	one, steps := repeat("pp=2", "mtp.0.norm.dw rows:arrival")
	require.False(t, one.OK)
	require.Contains(t, *one.Why, "step 1 under schedule 1, rank 1: state ")
	require.Less(t, steps, 8)
	all, _ := repeat("dp=3", "grads.bucket.* ranks:arrival")
	require.True(t, strings.HasPrefix(*all.Why, "step 1 under schedule 1, rank 0: state "), *all.Why)
	require.Equal(t, "dp3 M*E-E/*E fp32 fixed", all.Name)
}
