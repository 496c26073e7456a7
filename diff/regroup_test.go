package diff

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/trace"
)

// A Call that reads other tensors is an origin only where those that both runs read are equal, and there are some.
func TestRegrouped(t *testing.T) {
	rec := func(kind string, in ...string) *trace.Record {
		r := &trace.Record{Kind: kind}
		for _, name := range in {
			r.In = append(r.In, trace.Sig{Name: name[:1], Digest: name})
		}
		return r
	}
	for _, c := range []struct {
		a, b *trace.Record
		want bool
	}{
		{rec("op", "a1", "b1"), rec("op", "a1"), true},
		{rec("op", "a1"), rec("op", "a1", "b1"), true},
		{rec("kernel", "b1", "c1"), rec("kernel", "a1", "b1"), true},
		{rec("op", "a1"), rec("op", "a1"), false},       // the same
		{rec("op", "a1"), rec("op", "a2"), false},       // another input: something before it differs
		{rec("op", "a1", "b1"), rec("op", "a2"), false}, // that and fewer
		{rec("op", "a1"), rec("op", "b1"), false},       // nothing in common
		{rec("collective", "a1", "b1"), rec("collective", "a1"), true},
		{rec("metric", "a1", "b1"), rec("metric", "a1"), false},
	} {
		require.Equal(t, c.want, regrouped(c.a, c.b), "%v %v", c.a.In, c.b.In)
	}
	why := []Field{{Field: "config.cluster.bucket", A: "1", B: "2"}}
	class, _ := originClass(rec("op", "a1", "b1"), rec("op", "a1"), why, true)
	require.Equal(t, "topology", class)
	class, _ = originClass(rec("op", "a1", "b1"), rec("op", "a1"), nil, true)
	require.NotEqual(t, "topology", class, "nothing in the configuration explains it")
}

// Without a field of the cluster that differs, a Call that reads other tensors is no root of its own: it follows what gave it those.
func TestOnlyTheConfigurationRegroups(t *testing.T) {
	require.True(t, clusterField(Field{Field: "config.cluster.bucket"}))
	require.True(t, clusterField(Field{Field: "config.optim.replicated"}))
	require.False(t, clusterField(Field{Field: "config.micro"}))
	require.False(t, clusterField(Field{Field: "schedule"}))
}

// A collective that reads other tensors is the root if on every member those that both runs read are equal; else a member brings the difference.
func TestRegroupedCollective(t *testing.T) {
	run := func(bucket int, in [2]string) *trace.Trace {
		var ranks [][]trace.Record
		for _, value := range in {
			brought := l("x="+value+"<fwd l.x", "z=1<fwd l.z")[:2-bucket]
			c := rec("collective", "grads", "bucket.0", brought, l("y="+in[0]+in[1]+string(rune('0'+bucket))))
			c.Group = "dp"
			ranks = append(ranks, []trace.Record{op("x", "w=1", value), op("z", "w=1", "1"), c})
		}
		tr := traceOf("op", ranks...)
		tr.Raw = map[string]any{"config": map[string]any{"cluster": map[string]any{"bucket": float64(bucket)}}}
		return tr
	}
	paths := func(r *Report) (all []string) {
		for _, f := range r.Roots {
			all = append(all, f.Path())
		}
		return all
	}
	r := compareRanks(t, run(0, [2]string{"1", "2"}), run(1, [2]string{"1", "2"}))
	require.Equal(t, []string{"grads.bucket.0", "grads.bucket.0"}, paths(r))
	require.Equal(t, "topology", *r.Class)
	r = compareRanks(t, run(0, [2]string{"1", "2"}), run(1, [2]string{"1", "3"}))
	require.Equal(t, []string{"l.x"}, paths(r))
	require.Equal(t, 1, r.First.Rank)

	gone := run(1, [2]string{"1", "2"}) // on one member only
	gone.Ranks[1].Records = gone.Ranks[1].Records[:2]
	r = compareRanks(t, run(0, [2]string{"1", "2"}), gone)
	require.Empty(t, paths(r))
}

// States of which a rank has another piece, or another rank has it, are not compared; those of the same piece are, and one that nobody has is missing.
func TestOtherPiecesAreNotCompared(t *testing.T) {
	run := func(pieces ...map[string]int) *trace.Trace { // by rank: where a state's piece begins
		var ranks [][]trace.Record
		for rank, has := range pieces {
			records := []trace.Record{}
			for _, name := range []string{"a.m", "b.m"} {
				if lo, ok := has[name]; ok {
					records = append(records, piece(rec("state", "state", name, nil, l("value="+name+string(rune('0'+lo)))), lo))
				}
			}
			ranks = append(ranks, append(records, op("x", "w=1", string(rune('0'+rank)))))
		}
		return oneTrace("op", ranks...)
	}
	compare := func(a, b *trace.Trace) *Report {
		a.Run.Layout, b.Run.Layout = "dp=2", "dp=2"
		r, err := Compare(a, b)
		require.NoError(t, err)
		return r
	}
	whole := run(map[string]int{"a.m": 0}, map[string]int{"b.m": 0})
	require.True(t, compare(whole, run(map[string]int{"a.m": 0}, map[string]int{"b.m": 0})).Identical)
	require.True(t, compare(whole, run(map[string]int{"b.m": 0}, map[string]int{"a.m": 0})).Identical, "elsewhere")
	require.True(t, compare(whole, run(map[string]int{"a.m": 0, "b.m": 4}, map[string]int{"b.m": 0})).Identical, "cut")
	require.Equal(t, "missing", compare(whole, run(map[string]int{"a.m": 0}, map[string]int{})).First.Verdict, "nobody has it")
	one := run(map[string]int{"b.m": 0})
	require.True(t, compare(run(map[string]int{"a.m": 0}), one).Identical, "the other rank is not traced")
	changed := run(map[string]int{"a.m": 0}, map[string]int{"b.m": 0})
	changed.Ranks[1].Records[0].Out[0].Digest = "other"
	require.Equal(t, "b.m", compare(whole, changed).First.Name, "the same piece")
	for i := range changed.Ranks[1].Records {
		changed.Ranks[1].Records[i].Place = nil
	}
	require.Equal(t, "b.m", compare(whole, changed).First.Name, "it is not recorded that it is another")
}
