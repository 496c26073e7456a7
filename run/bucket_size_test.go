package run

import (
	"testing"

	"github.com/stretchr/testify/require"
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
