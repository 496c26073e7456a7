package verify

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/tune"
)

// of24 is a run of 24 sequences, in the largest microbatches that a layout's ranks can have, or of one where ranks share sequences.
func of24(pattern, precision, layout string) run.Spec {
	c := lowBits(pattern, precision)
	c.Seq, c.Steps, c.Model.MoE.Experts = 32, 1, 6
	l := must(parallel.ParseLayout(layout))
	n := 24 / l.DP
	if c.Batch = n & -n; l.CP > 1 || l.VPP > 1 {
		c.Batch = 1
	}
	c.Micro = n / c.Batch
	return run.Spec{Config: c, Layout: l, Recipe: tune.Canonical, Schedule: device.Schedule{Seed: uint64(l.World())}}
}

// Data ranks whose sequences are no subtree of the step's, such as three of 24, bring the subtrees that they have: of weights that all have, and of
// experts whose tokens come from several of them, sent early or late, sharded or not.
func TestSharesThatAreNoSubtrees(t *testing.T) {
	values := func(s run.Spec) Values {
		v, err := Run(s)
		require.NoError(t, err)
		return v
	}
	want := values(of24("M*E-/*E", "fp32", ""))
	early, replicated := of24("M*E-/*E", "fp32", "dp=8,ep=2"), of24("M*E-/*E", "fp32", "dp=8")
	early.Config.Cluster.Overlap, replicated.Config.Optim.Replicated = true, true
	for _, s := range []run.Spec{of24("M*E-/*E", "fp32", "dp=3,pp=2,vpp=2"), of24("M*E-/*E", "fp32", "dp=6,ep=3"), early, replicated} {
		require.Empty(t, want.Differ(values(s)), "%s", s.Layout)
	}
	for _, plan := range []string{"grads.bucket.? ranks:seq/fp32", "metrics.losses.sum ranks:perm(3)/fp32"} {
		s := of24("M*E-/*E", "fp32", "dp=8")
		s.Plans = []string{plan}
		require.NotEmpty(t, want.Differ(values(s)), "negative control: %s", plan)
	}
}
