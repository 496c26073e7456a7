package diff

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/trace"
)

// one trace of ranks in a data-parallel group.
func oneTrace(level string, ranks ...[]trace.Record) *trace.Trace {
	t := traceOf(level, ranks...)
	members := make([]int, len(ranks))
	for i := range members {
		members[i] = i
	}
	t.Run.Groups = map[string][]int{"dp": members}
	return t
}

func TestReplicasOfOneTrace(t *testing.T) {
	numel := func(r trace.Record, in, out int) trace.Record {
		r.In[0].Numel, r.Out[0].Numel = in, out
		return r
	}
	rank := func(weight, own, sum, shard string) []trace.Record {
		return []trace.Record{
			rec("state", "state", "embed.w", nil, l("value="+weight)), rec("state", "state", "embed.w.m", nil, l("value="+own)),
			rec("op", "l", "x", nil, l("y="+own)), // its own data
			numel(rec("collective", "grads", "bucket.0", l("x="+own), l("y="+shard)), 8, 2),
			numel(rec("collective", "grad_norm", "all", l("x="+own), l("y="+sum)), 1, 1),
			rec("metric", "", "loss", l("value="+sum), nil), rec("metric", "", "state", nil, l("digest="+own)),
		}
	}
	check := func(ranks ...[]trace.Record) *Report {
		r, err := Replicas(oneTrace("op", ranks...))
		require.NoError(t, err)
		return r
	}
	r := check(rank("w", "1", "s", "a"), rank("w", "2", "s", "b"), rank("w", "3", "s", "c"))
	require.True(t, r.Identical)
	require.Equal(t, 21, r.Records)
	require.Equal(t, 1, r.Steps)

	r = check(rank("w", "1", "s", "a"), rank("v", "2", "s", "b"), rank("w", "3", "s", "c"))
	require.False(t, r.Identical)
	require.Equal(t, Finding{"outside-window", 1, 1, 0, "fwd", "state", "embed.w", "state", "op"}, *r.First)
	require.Equal(t, "one-rank", *r.Pattern)
	require.Equal(t, "memory", *r.Class)
	require.Equal(t, "widen-window", r.Action)

	r = check(rank("w", "1", "z", "a"), rank("w", "2", "s", "b"), rank("w", "3", "s", "c"))
	require.Equal(t, "all", r.First.Name)
	require.Equal(t, 0, r.First.Rank, "most of the ranks are believed")
	require.Equal(t, "narrow", r.First.Verdict)
	require.Len(t, r.Roots, 1, "the metric is a consequence")
}

func TestRecomputationsOfOneTrace(t *testing.T) {
	run := func(mask, out string) []trace.Record {
		again := func(r trace.Record) trace.Record { r.Phase = "rec"; return r }
		return []trace.Record{
			rec("draw", "l", "mask", l("stream=0"), l("mask=m", "stream=1")), rec("op", "l", "y", l("x=m"), l("y=o")),
			again(rec("draw", "l", "mask", l("before=0", "stream=1"), l("mask="+mask, "stream=1"))),
			again(rec("op", "l", "y", l("x="+mask), l("y="+out))), again(rec("recompute", "l", "recompute", l("fwd=o"), l("rec="+out))),
		}
	}
	check := func(level string, records []trace.Record) *Report {
		r, err := Replicas(traceOf(level, records))
		require.NoError(t, err)
		return r
	}
	require.True(t, check("op", run("m", "o")).Identical, "a stream that moved on is none of the recomputation's")
	r := check("op", run("n", "p"))
	require.Equal(t, "mask", r.First.Name)
	require.Equal(t, "origin", r.First.Verdict)
	require.Equal(t, "state", *r.Class)
	require.Equal(t, "investigate-call", r.Action)
	r = check("semantic", run("m", "p")[4:])
	require.Equal(t, "recompute", r.First.Name)
	require.Equal(t, "narrow", r.First.Verdict)
}
