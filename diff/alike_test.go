package diff

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/trace"
)

// Of Calls of the optimizer that read the same, the one that wrote something else than most is the origin; what reads other bits, draws, or runs before
// the step's end may write others.
func TestReplicasPart(t *testing.T) {
	rank := func(kind, phase, in, plan, out string) []trace.Record {
		r := rec(kind, "optim", "w", l("grad="+in), l("master="+out))
		r.Phase, r.Plan, r.Library = phase, plan, "sim"
		return []trace.Record{r}
	}
	check := func(ranks ...[]trace.Record) *Report {
		r, err := Replicas(oneTrace("op", ranks...))
		require.NoError(t, err)
		return r
	}
	same := func() []trace.Record { return rank("optim", "opt", "g", "", "m") }
	r := check(same(), rank("optim", "opt", "g", "", "n"), same())
	require.Equal(t, "origin", r.First.Verdict)
	require.Equal(t, 1, r.First.Rank)
	require.Equal(t, "hardware", *r.Class)
	require.Equal(t, []string{"optim.w differs from what most of 3 ranks have", "rank 0 read the same", "same inputs, same plan, same library: nothing the software chose differs"}, r.Evidence)
	r = check(rank("op", "opt", "g", "elements:seq/fp32", "n"), rank("op", "opt", "g", "elements:reverse/fp32", "m"))
	require.Equal(t, 1, r.First.Rank)
	require.Equal(t, "tuner", *r.Class)
	require.Contains(t, r.Evidence[0], "nothing tells which is right")

	require.True(t, check(same(), rank("optim", "opt", "h", "", "n")).Identical, "other inputs")
	require.True(t, check(same(), same()).Identical)
	for _, other := range [][2]string{{"draw", "opt"}, {"op", "bwd"}} {
		of := func(out string) []trace.Record { return rank(other[0], other[1], "g", "", out) }
		require.True(t, check(of("m"), of("n")).Identical, "%v", other)
	}
}
