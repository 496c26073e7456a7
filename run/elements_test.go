package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/parallel"
	"firstbit/train"
)

// The fingerprint by elements is the same however buckets cut the moments, and not if an element of one differs.
func TestElementsAreIndependentOfBuckets(t *testing.T) {
	run := func(bucket int, faults ...string) *Outcome {
		s := overRanks(4, nil)
		s.Config.Cluster.Bucket, s.Config.Optim.Clip, s.Elements, s.Faults = bucket, 0, true, faults
		s.Plans = []string{"grads.bucket.? ranks:seq", "grads.bucket.?? ranks:seq"}
		o, err := Run(s)
		require.NoError(t, err)
		return o
	}
	a, b := run(3000), run(700)
	require.Equal(t, a.Elements, b.Elements)
	require.NotEqual(t, a.Steps[0].State, b.Steps[0].State, "ranks hold other parts")
	c := run(700, "flip@optim.embed.w rank=3 step=2 phase=opt out=m bit=1 at=rest")
	require.Equal(t, a.Elements[0], c.Elements[0])
	require.NotEqual(t, a.Elements[1], c.Elements[1])
}

// Nor do they depend on the layout, where its runs have the same bits: what replicas have alike counts once, what one of them has otherwise does not.
func TestElementsAreIndependentOfTheLayout(t *testing.T) {
	run := func(l parallel.Layout, faults ...string) []uint64 {
		s := overRanks(1, func(c *train.Config) { c.Micro, c.Model.SSM.Groups, c.Model.MoE.Aux = 2/max(l.DP, 1), 2, "sequence" })
		s.Layout, s.Recipe, s.Elements, s.Faults = l, "canonical", true, faults
		o, err := Run(s)
		require.NoError(t, err)
		return o.Elements
	}
	one := run(parallel.Layout{DP: 1})
	require.Equal(t, one, run(parallel.Layout{TP: 2}))
	require.Equal(t, one, run(parallel.Layout{DP: 2}))
	drifted := run(parallel.Layout{DP: 2}, "flip@weights.bucket.0 rank=1 step=2 phase=opt bit=20")
	require.Equal(t, one[0], drifted[0])
	require.NotEqual(t, one[1], drifted[1])
}
