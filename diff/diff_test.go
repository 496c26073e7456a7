package diff

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/trace"
)

// rec is a record; in and out are "name=digest" or "name=digest<producer".
func rec(kind, scope, name string, in, out []string) trace.Record {
	return trace.Record{Library: "sim-12.8", SchemaVersion: 1, Iteration: 1, Phase: "fwd", Kind: kind, Scope: scope, Name: name, In: sigs(in), Out: sigs(out)}
}

func sigs(list []string) []trace.Sig {
	var s []trace.Sig
	for _, text := range list {
		var from *string
		for i := range text {
			if text[i] == '<' {
				f := text[i+1:]
				from, text = &f, text[:i]
				break
			}
		}
		for i := range text {
			if text[i] == '=' {
				s = append(s, trace.Sig{Name: text[:i], Digest: text[i+1:], From: from, Dtype: "fp32"})
				break
			}
		}
	}
	return s
}

func l(s ...string) []string { return s }

func traceOf(level string, ranks ...[]trace.Record) *trace.Trace {
	t := &trace.Trace{Run: trace.Run{SchemaVersion: 1, Layout: "dp=1", Level: level}, Raw: map[string]any{}}
	for i, r := range ranks {
		for j := range r {
			r[j].Rank, r[j].Seq = i, j
		}
		t.Ranks = append(t.Ranks, trace.Rank{Rank: i, Records: r})
	}
	return t
}

func compare(t *testing.T, level string, a, b []trace.Record) *Report {
	t.Helper()
	r, err := Compare(traceOf(level, a), traceOf(level, b))
	require.NoError(t, err)
	return r
}

// The rules of docs/traces.md, Verdicts, in their order.
func TestReadingRules(t *testing.T) {
	same := rec("op", "l", "first", nil, l("y=1"))
	flagged := rec("op", "l", "empty", nil, l("y=1"))
	flagged.Flags = []string{"uninit"}
	flaggedB := flagged
	flaggedB.Out = sigs(l("y=2"))
	view := rec("op", "l", "slice", l("x=1"), l("y=1"))
	viewB := view
	view.View, viewB.View, viewB.Out = true, true, sigs(l("y=2"))
	load := rec("load", "", "w", nil, l("w=1"))
	for _, c := range []struct {
		name, level, verdict, class, action string
		a, b                                []trace.Record
	}{
		{"only one run has it", "op", "missing", "control", "compare-configs", []trace.Record{same, rec("op", "l", "extra", nil, nil)}, []trace.Record{same}},
		{"only the other has it", "op", "missing", "control", "compare-configs", []trace.Record{same}, []trace.Record{rec("op", "l", "extra", nil, nil), same}},
		{"uninitialised output", "op", "artifact", "probe", "fix-probe", []trace.Record{flagged}, []trace.Record{flaggedB}},
		{"state at the window's start", "op", "outside-window", "state", "widen-window", []trace.Record{rec("state", "", "w", nil, l("v=1"))}, []trace.Record{rec("state", "", "w", nil, l("v=2"))}},
		{"what was loaded", "op", "restore", "state", "check-restore", []trace.Record{rec("load", "", "w", nil, l("v=1"))}, []trace.Record{rec("load", "", "w", nil, l("v=2"))}},
		{"state after a load", "op", "restore", "state", "check-restore", []trace.Record{load, rec("state", "", "w", nil, l("v=1"))}, []trace.Record{load, rec("state", "", "w", nil, l("v=2"))}},
		{"inputs equal, outputs differ", "op", "origin", "hardware", "investigate-call", []trace.Record{rec("op", "l", "x", l("a=1"), l("y=1"))}, []trace.Record{rec("op", "l", "x", l("a=1"), l("y=2"))}},
		{"a view", "op", "blind-spot", "", "trace-upstream", []trace.Record{view}, []trace.Record{viewB}},
		{"a metric names no root", "op", "narrow", "", "trace-deeper", []trace.Record{rec("metric", "", "loss", l("v=1"), nil)}, []trace.Record{rec("metric", "", "loss", l("v=2"), nil)}},
		{"what the state's fingerprint read last changed", "semantic", "memory", "memory", "investigate-call",
			[]trace.Record{rec("draw", "l", "mask", nil, l("s=1")), rec("metric", "", "state", l("rng=1<fwd l.mask"), l("d=1"))},
			[]trace.Record{rec("draw", "l", "mask", nil, l("s=1")), rec("metric", "", "state", l("rng=2<fwd l.mask"), l("d=2"))}},
		{"a metric of what is not traced", "semantic", "narrow", "", "trace-deeper",
			[]trace.Record{rec("metric", "", "loss", l("v=1<opt metrics.loss"), nil)}, []trace.Record{rec("metric", "", "loss", l("v=2<opt metrics.loss"), nil)}},
		{"producer wrote the same", "op", "memory", "memory", "investigate-call",
			[]trace.Record{same, rec("op", "l", "x", l("a=1<fwd l.first"), l("y=1"))}, []trace.Record{same, rec("op", "l", "x", l("a=9<fwd l.first"), l("y=2"))}},
		{"producer wrote the same, and its module's boundary shows what became of it", "op", "memory", "memory", "investigate-call",
			[]trace.Record{same, rec("module", "l", "block", nil, l("y=1")), rec("op", "m", "x", l("a=1<fwd l.first"), l("y=1"))},
			[]trace.Record{same, rec("module", "l", "block", nil, l("y=9")), rec("op", "m", "x", l("a=9<fwd l.first"), l("y=2"))}},
		{"a boundary alone", "op", "narrow", "", "trace-deeper",
			[]trace.Record{same, rec("module", "l", "block", nil, l("y=1"))}, []trace.Record{same, rec("module", "l", "block", nil, l("y=9"))}},
		{"a boundary above what is traced", "module", "narrow", "", "trace-deeper",
			[]trace.Record{rec("module", "l", "block", nil, l("y=1")), rec("module", "m", "block", l("x=1"), l("y=1"))},
			[]trace.Record{rec("module", "l", "block", nil, l("y=9")), rec("module", "m", "block", l("x=9"), l("y=2"))}},
		{"producer ought to be traced", "op", "blind-spot", "", "trace-upstream",
			[]trace.Record{same, rec("op", "l", "x", l("a=1<fwd l.custom"), l("y=1"))}, []trace.Record{same, rec("op", "l", "x", l("a=9<fwd l.custom"), l("y=2"))}},
		{"no producer at all", "op", "blind-spot", "", "trace-upstream", []trace.Record{rec("op", "l", "x", l("a=1"), l("y=1"))}, []trace.Record{rec("op", "l", "x", l("a=9"), l("y=2"))}},
		{"producer below the level", "semantic", "narrow", "", "trace-deeper",
			[]trace.Record{rec("optim", "o", "w", l("g=1<bwd l.dw"), l("w=1"))}, []trace.Record{rec("optim", "o", "w", l("g=2<bwd l.dw"), l("w=2"))}},
	} {
		r := compare(t, c.level, c.a, c.b)
		require.False(t, r.Identical, c.name)
		require.Equal(t, c.verdict, r.First.Verdict, c.name)
		require.Equal(t, c.action, r.Action, c.name)
		if c.class == "" {
			require.Nil(t, r.Class, c.name)
		} else {
			require.Equal(t, c.class, *r.Class, c.name)
		}
		require.True(t, compare(t, c.level, c.a, c.a).Identical, c.name)
	}
}

// The alphabetically first mismatch is not the first in time.
func TestFirstIsByExecution(t *testing.T) {
	a := []trace.Record{rec("op", "z", "late_name", nil, l("y=1")), rec("op", "a", "early_name", l("x=1<fwd z.late_name"), l("y=1"))}
	b := []trace.Record{rec("op", "z", "late_name", nil, l("y=2")), rec("op", "a", "early_name", l("x=2<fwd z.late_name"), l("y=2"))}
	require.Equal(t, "z.late_name", compare(t, "op", a, b).First.Path())
}

// A collective is an origin only if the inputs of all its members match.
func TestCollectiveIsJudgedOnAllMembers(t *testing.T) {
	all := func(in0, in1, out string) [][]trace.Record {
		var ranks [][]trace.Record
		for _, in := range []string{in0, in1} {
			r := rec("collective", "", "all_reduce", l("x="+in), l("y="+out))
			r.Group = "dp"
			ranks = append(ranks, []trace.Record{r})
		}
		return ranks
	}
	report := func(a, b [][]trace.Record) *Report {
		r, err := Compare(traceOf("op", a...), traceOf("op", b...))
		require.NoError(t, err)
		return r
	}
	r := report(all("1", "1", "3"), all("1", "1", "4"))
	require.Equal(t, "origin", r.First.Verdict)
	require.Equal(t, "all-ranks", *r.Pattern)
	r = report(all("1", "1", "3"), all("1", "2", "4"))
	require.Equal(t, "downstream", r.Ranks[0].Verdict)
	require.Equal(t, 1, r.First.Rank, "the member that brought it")

	// Of three members two are traced: nothing can be said of the third.
	some := func(out string) *trace.Trace {
		t := traceOf("op", all("1", "1", out)...)
		t.Run.Groups = map[string][]int{"dp": {0, 1, 2}}
		return t
	}
	r, err := Compare(some("3"), some("4"))
	require.NoError(t, err)
	require.Equal(t, "unresolved", r.First.Verdict)
	require.Equal(t, "trace-ranks", r.Action)
	require.Contains(t, r.Evidence[0], "ranks [2]")
	require.Empty(t, r.Roots)
}

// Ranks to which a collective brought the difference are no part of its pattern.
func TestPatternCountsWhoBeganIt(t *testing.T) {
	rank := func(op, brought, sum string) []trace.Record {
		c := rec("collective", "", "all_reduce", l("x="+brought), l("y="+sum))
		c.Group = "dp"
		return []trace.Record{rec("op", "l", "dw", l("x=1"), l("y="+op)), c}
	}
	r, err := Compare(traceOf("op", rank("a", "a", "s"), rank("b", "b", "s")), traceOf("op", rank("a", "a", "t"), rank("c", "c", "t")))
	require.NoError(t, err)
	require.Equal(t, "l.dw", r.First.Path())
	require.Equal(t, 1, r.First.Rank)
	require.Equal(t, "one-rank", *r.Pattern)
}

func TestClassesOfChoice(t *testing.T) {
	pair := func(planA, planB string) *Report {
		a, b := rec("op", "l", "x", nil, l("y=1")), rec("op", "l", "x", nil, l("y=2"))
		a.Plan, b.Plan = planA, planB
		return compare(t, "op", []trace.Record{a}, []trace.Record{b})
	}
	require.Equal(t, "arrival", *pair("tiles:arrival/fp32", "tiles:arrival/fp32").Class)
	require.Equal(t, "arrival", *pair("sched=dynamic", "sched=dynamic").Class)
	a, b := rec("op", "l", "x", nil, l("y=1")), rec("op", "l", "x", nil, l("y=2"))
	a.Plan, b.Plan = "tiles:arrival/fp32", "tiles:arrival/fp32"
	for schedule, want := range map[string]string{"7": "hardware", "real": "arrival"} {
		ta, tb := traceOf("op", []trace.Record{a}), traceOf("op", []trace.Record{b})
		ta.Run.Schedule, tb.Run.Schedule = schedule, schedule
		r, err := Compare(ta, tb)
		require.NoError(t, err)
		require.Equal(t, want, *r.Class, "both under schedule %s", schedule)
	}
	require.Equal(t, "tuner", *pair("k:seq/fp32", "k:splitk(4)/fp32").Class)
	require.Equal(t, "tuner", *pair("k:seq/fp32; tiles:arrival/fp32", "k:splitk(4)/fp32; tiles:arrival/fp32").Class, "both race, by other plans")
	for _, odd := range [][2]string{{"fused=true", "fused=false"}, {"tie:seq", "tie:reverse"}, {"tie:seq", "tie=low"}, {"", "tie=low"}, {"k", "k"}} {
		require.NotPanics(t, func() { pair(odd[0], odd[1]) }, "a trace of another maker: %v", odd)
	}
	require.Equal(t, "tie", *pair("fused=true; tie=native", "fused=false; tie=native").Class)
	require.Equal(t, "tie", *pair("fused=true; tie=low", "fused=true; tie=native").Class)
	require.Equal(t, "tuner", *pair("tie=native; slots=value", "tie=native; slots=index").Class, "slots are no matter of ties")
	require.Equal(t, "tuner", *pair("fused=true; tie=low", "fused=false; tie=low").Class, "one tie rule for both kernels")
	require.Equal(t, "hardware", *pair("k:seq/fp32", "k:seq/fp32").Class)
}

// A kernel that ran more than once in one run: what it updates is there twice, else it was timed on what it writes. Of one trace only the first shows.
func TestKernelsThatRanAgain(t *testing.T) {
	run := func(in, out string, launches int) []trace.Record {
		r := rec("op", "l", "tokens", l("index=1", in), l(out))
		r.Launches = launches
		return []trace.Record{r}
	}
	alone := func(records []trace.Record) *Report {
		r, err := Replicas(traceOf("op", records))
		require.NoError(t, err)
		return r
	}
	once, twice := run("tokens=1", "tokens=2", 0), run("tokens=1", "tokens=3", 2)
	require.Equal(t, "state", *compare(t, "op", once, twice).Class)
	require.Equal(t, "hardware", *compare(t, "op", once, run("tokens=1", "tokens=3", 0)).Class, "it ran once")
	require.Equal(t, "state", *alone(twice).Class)
	require.True(t, alone(once).Identical)
	require.Equal(t, "tuner", *compare(t, "op", run("x=1", "y=2", 0), run("x=1", "y=3", 3)).Class)
	require.True(t, alone(run("x=1", "y=3", 3)).Identical)
}

// A recomputation draws from the state that the forward kept, and leaves the stream alone: one of two that does not is the cause.
func TestARecomputationThatMovesItsStream(t *testing.T) {
	draw := func(phase string, before, after, mask string) []trace.Record {
		r := rec("draw", "l", "mask", l("before=1", "stream="+before), l("mask="+mask, "stream="+after))
		r.Phase = phase
		return []trace.Record{r}
	}
	require.Equal(t, "state", *compare(t, "op", draw("rec", "2", "2", "7"), draw("rec", "2", "3", "8")).Class)
	require.Equal(t, "hardware", *compare(t, "op", draw("rec", "2", "2", "7"), draw("rec", "2", "2", "8")).Class, "the mask alone")
	require.Equal(t, "hardware", *compare(t, "op", draw("rec", "2", "2", "7"), draw("rec", "2", "3", "7")).Class, "the stream alone")
	require.Equal(t, "hardware", *compare(t, "op", draw("fwd", "2", "3", "7"), draw("fwd", "2", "4", "7")).Class, "a forward does")
}

// A recomputation that differs is an origin where nothing deeper is traced, and a consequence of its Calls where they are.
func TestRecomputationsAreJudgedByTheirCalls(t *testing.T) {
	run := func(x string) []trace.Record {
		op, pair := rec("op", "l", "a", nil, l("y="+x)), rec("recompute", "l", "recompute", l("fwd=0"), l("rec="+x))
		op.Phase, pair.Phase = "rec", "rec"
		return []trace.Record{op, pair}
	}
	r := compare(t, "op", run("0"), run("1"))
	require.Len(t, r.Roots, 1)
	require.Equal(t, "a", r.Roots[0].Name)
	r = compare(t, "semantic", run("0"), run("1"))
	require.Equal(t, "recompute", r.First.Name)
	require.Equal(t, "narrow", r.First.Verdict, "its Calls lie deeper")
	require.Empty(t, r.Roots)
}

func TestIndependentRootsAreAllListed(t *testing.T) {
	run := func(x string) []trace.Record {
		return []trace.Record{rec("op", "l", "a", nil, l("y="+x)), rec("op", "l", "b", nil, l("y="+x)), rec("op", "l", "c", l("x="+x+"<fwd l.a"), l("y="+x))}
	}
	r := compare(t, "op", run("1"), run("2"))
	require.Len(t, r.Roots, 2, "c is a consequence")
	require.Nil(t, r.Pattern, "there is one rank")
}

func TestNotComparable(t *testing.T) {
	a, b := traceOf("op", nil), traceOf("op", nil)
	b.Run.SchemaVersion = 2
	_, err := Compare(a, b)
	require.ErrorContains(t, err, "schema versions differ")
	b = traceOf("op", nil)
	b.Run.Layout = "dp=2"
	_, err = Compare(a, b)
	require.ErrorContains(t, err, "layouts differ")
	_, err = Compare(a, traceOf("op"))
	require.ErrorContains(t, err, "no rank in common")
}

// Of two levels the shallower is compared: what one run did not look at is not missing.
func TestLevelsMayDiffer(t *testing.T) {
	op := rec("op", "l", "x", nil, l("y=1"))
	metric := rec("metric", "", "loss", l("v=1"), nil)
	r, err := Compare(traceOf("op", []trace.Record{op, metric}), traceOf("metrics", []trace.Record{metric}))
	require.NoError(t, err)
	require.True(t, r.Identical)
}

// What a fault came to follows from the run; what was injected is what may explain it.
func TestFaultsDifferByWhatWasInjected(t *testing.T) {
	run := func(spec string, acted float64) map[string]any {
		return map[string]any{"faults": []any{map[string]any{"spec": spec, "acted": acted, "changed": acted}}}
	}
	require.Empty(t, configDifferences(run("flip@x", 1), run("flip@x", 2)))
	require.Equal(t, []Field{{"faults", `["flip@x"]`, `["flip@y"]`, true}}, configDifferences(run("flip@x", 1), run("flip@y", 1)))
}
