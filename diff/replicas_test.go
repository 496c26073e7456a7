package diff

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/state"
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
			piece(rec("state", "state", "embed.w", nil, l("value="+weight)), 0), rec("state", "state", "embed.w.m", nil, l("value="+own)),
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
	require.Equal(t, Finding{"outside-window", trace.Location{Rank: 1, Iteration: 1, Phase: "fwd", Kind: "state", Name: "embed.w", Scope: "state", Level: "op"}}, *r.First)
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

// piece is a record of a state of eight elements of which a rank has those from lo on.
func piece(r trace.Record, lo int) trace.Record {
	r.Role, r.Of, r.Place = state.FirstMoment, "w", &state.Place{Whole: []int{8}, Lo: lo}
	return r
}

// Ranks that have the same piece of a state have copies, and no others. Where a trace does not say who has what, nothing is compared, which it says.
func TestCopiesAreThoseOfTheSamePiece(t *testing.T) {
	run := func(norm, part [4]string, lo [4]int) *Report {
		ranks := make([][]trace.Record, 4)
		for i := range ranks {
			ranks[i] = []trace.Record{rec("state", "state", "norm.w", nil, l("value="+norm[i])), rec("state", "state", "wq", nil, l("value="+part[i]))}
			if lo != ([4]int{}) {
				ranks[i][0], ranks[i][1] = piece(ranks[i][0], 0), piece(ranks[i][1], lo[i])
			}
		}
		r, err := Replicas(oneTrace("op", ranks...))
		require.NoError(t, err)
		return r
	}
	places := [4]int{0, 4, 0, 4}
	same := [4]string{"n", "n", "n", "n"}
	r := run(same, [4]string{"a", "b", "a", "b"}, places)
	require.True(t, r.Identical)
	require.Nil(t, r.NotRecorded)
	require.False(t, run(same, [4]string{"a", "b", "a", "b"}, [4]int{4, 4, 4, 4}).Identical, "all have one piece")
	r = run(same, [4]string{"a", "b", "a", "b"}, [4]int{})
	require.True(t, r.Identical)
	require.Contains(t, *r.NotRecorded, "in 8 records")
	r = run(same, [4]string{"a", "b", "a", "c"}, places)
	require.Equal(t, "wq", r.First.Name)
	require.Equal(t, 3, r.First.Rank)
	require.Contains(t, r.Evidence[0], "nothing tells which is right")
	r = run([4]string{"n", "m", "n", "n"}, [4]string{"a", "b", "a", "b"}, places)
	require.Equal(t, "norm.w", r.First.Name)
	require.Equal(t, 1, r.First.Rank)
	require.Contains(t, r.Evidence[0], "most of 4")
}

// Of collectives, each group's own members have copies, and only where the collective leaves them.
func TestCopiesOfCollectives(t *testing.T) {
	run := func(kernel string, out [4]string) *Report {
		ranks := make([][]trace.Record, 4)
		for i := range ranks {
			r := meeting([]string{"tp.0", "tp.1"}[i/2], "y", "1", out[i])
			r.Kernel = kernel
			ranks[i] = []trace.Record{r}
		}
		one := traceOf("op", ranks...)
		one.Run.Groups = map[string][]int{"tp.0": {0, 1}, "tp.1": {2, 3}}
		r, err := Replicas(one)
		require.NoError(t, err)
		return r
	}
	require.True(t, run("all_gather", [4]string{"a", "a", "b", "b"}).Identical, "two groups")
	require.True(t, run("all_to_all", [4]string{"a", "b", "c", "d"}).Identical)
	require.True(t, run("reduce_scatter", [4]string{"a", "b", "c", "d"}).Identical)
	for _, kernel := range []string{"all_gather", "all_reduce", "all_reduce.max", ""} {
		r := run(kernel, [4]string{"a", "a", "b", "c"})
		require.False(t, r.Identical, kernel)
		require.Equal(t, 3, r.First.Rank)
	}
}

// Which mismatch comes first is a matter of who met, not of a record's number.
func TestFirstReplicaIsByHappensBefore(t *testing.T) {
	ranks := func(before, after string) *trace.Trace {
		gather := meeting("g", "x", "1", before)
		gather.Kernel = "all_gather"
		own := meeting("g", "x", "1", "1")
		own.Kernel = "all_gather"
		metric := func(v string) trace.Record { return rec("metric", "", "loss", l("value="+v), nil) }
		return oneTrace("op", []trace.Record{own, metric(after)}, []trace.Record{op("a", "x=0", "1"), op("b", "x=0", "1"), gather, metric("1")},
			[]trace.Record{own, metric("1")}, []trace.Record{own, metric("1")})
	}
	r, err := Replicas(ranks("2", "3"))
	require.NoError(t, err)
	require.Equal(t, "l.x", r.First.Path())
	require.Equal(t, 1, r.First.Rank)
}

func TestWhatIsReceivedIsWhatWasSent(t *testing.T) {
	check := func(received string) *Report {
		r, err := Replicas(traceOf("op", []trace.Record{send("1", "1")}, []trace.Record{recv("0", received)}))
		require.NoError(t, err)
		return r
	}
	require.True(t, check("1").Identical)
	r := check("2")
	require.Equal(t, "origin", r.First.Verdict)
	require.Equal(t, 1, r.First.Rank)
	require.Equal(t, "hardware", *r.Class)
	require.Equal(t, "investigate-call", r.Action)
	require.Contains(t, r.Evidence[0], "not what rank 0 sent")
}

// A recomputation by another plan than the forward's is the tuner's, and may vary besides.
func TestRecomputationThatVaries(t *testing.T) {
	forward := &trace.Record{Kind: "op", Plan: "k:seq/fp32"}
	j := recomputation(forward, &trace.Record{Kind: "op", Plan: "k:arrival/fp32"})
	require.Equal(t, "tuner", j.class)
	require.Contains(t, j.why, "the recomputation does not repeat itself: its plan depends on arrival")
	require.NotContains(t, recomputation(forward, &trace.Record{Kind: "op", Plan: "k:reverse/fp32"}).why, "the recomputation does not repeat itself: its plan depends on arrival")
}
