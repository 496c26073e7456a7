package diff

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/trace"
)

// run is steps from one to another; what each writes the next reads. From step bad on it is another number.
func steps(from, to, bad int) []trace.Record {
	digest := func(step int) string {
		if step >= bad {
			return "bad" + string(rune('a'+step))
		}
		return string(rune('a' + step))
	}
	var all []trace.Record
	for step := from; step <= to; step++ {
		records := []trace.Record{rec("op", "l", "w", l("w="+digest(step-1)+"<fwd l.w"), l("w="+digest(step))), rec("metric", "", "loss", l("value="+digest(step)), nil)}
		if step > from {
			records = append(records, rec("metric", "", "state", nil, l("digest="+digest(step))))
		} else { // the window begins with the states
			records = append([]trace.Record{rec("state", "", "w", nil, l("w="+digest(step-1)))}, records...)
			all := rec("metric", "", "state", l("w="+digest(step)), l("digest="+digest(step)))
			records = append(records, all)
		}
		for _, r := range records {
			r.Iteration = step
			all = append(all, r)
		}
	}
	return all
}

func TestStepsThatBothHold(t *testing.T) {
	const never = 99
	for _, c := range []struct {
		name          string
		a, b          []trace.Record
		steps, of     int
		step          int // of the first difference; 0: identical
		verdict, path string
	}{
		{"all", steps(1, 4, never), steps(1, 4, never), 4, 4, 0, "", ""},
		{"one is longer", steps(1, 4, never), steps(1, 2, never), 2, 4, 0, "", ""},
		{"one is longer, and differs after the other's end", steps(1, 4, 3), steps(1, 2, never), 2, 4, 0, "", ""},
		{"one is longer, and differs before", steps(1, 4, 2), steps(1, 2, never), 2, 4, 2, "origin", "l.w"},
		{"windows overlap", steps(1, 3, never), steps(2, 5, never), 2, 5, 0, "", ""},
		{"one window in another", steps(1, 5, never), steps(3, 4, never), 2, 5, 0, "", ""},
		{"they parted before the window that they share", steps(1, 5, 2), steps(3, 5, never), 3, 5, 3, "outside-window", "l.w"},
		{"they part in it", steps(1, 5, 4), steps(3, 5, never), 3, 5, 4, "origin", "l.w"},
		{"one window: its states tell", steps(3, 5, 2), steps(3, 5, never), 3, 3, 3, "outside-window", "w"},
		{"a step between is in one trace alone", append(steps(1, 2, never), steps(4, 4, 3)...), steps(1, 4, never), 3, 4, 4, "outside-window", "l.w"},
	} {
		for range 2 {
			a, b := traceOf("op", c.a), traceOf("op", c.b)
			if c.name == "a step between is in one trace alone" { // of one window, that has a gap
				for _, tr := range []*trace.Trace{a, b} {
					tr.Ranks[0].Records = without(tr.Ranks[0].Records, func(r trace.Record) bool { return r.Kind == "state" && r.Iteration > 1 })
				}
			}
			r, err := Compare(a, b)
			require.NoError(t, err, c.name)
			require.Equal(t, &Shared{c.steps, c.of, 1, 1}, r.Shared, c.name)
			require.Nil(t, r.Truncated, c.name)
			require.Equal(t, c.step == 0, r.Identical, c.name)
			if c.step > 0 {
				require.Equal(t, c.step, r.First.Iteration, c.name)
				require.Equal(t, c.verdict, r.First.Verdict, c.name)
				require.Equal(t, c.path, r.First.Path(), c.name)
			}
			c.a, c.b = c.b, c.a
		}
	}
	_, err := Compare(traceOf("op", steps(1, 2, never)), traceOf("op", steps(3, 9, never)))
	require.ErrorAs(t, err, &NotComparable{})
	require.EqualError(t, err, "the traces have no step in common: A holds 1 to 2, B holds 3 to 9")

	r, err := Compare(traceOf("op", steps(1, 2, never), steps(1, 2, never)), traceOf("op", steps(1, 2, never)))
	require.NoError(t, err)
	require.Equal(t, &Shared{2, 2, 1, 2}, r.Shared)
}

func without(records []trace.Record, drop func(r trace.Record) bool) (kept []trace.Record) {
	for _, r := range records {
		if !drop(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// The initialisation is no step, and is compared where both show it.
func TestInitialisationIsShared(t *testing.T) {
	born := rec("draw", "", "w", nil, l("w=1"))
	born.Iteration, born.Phase = 0, "init"
	other := born
	other.Out = sigs(l("w=2"))
	run := func(first trace.Record, from, to int) *trace.Trace {
		return traceOf("op", append([]trace.Record{first}, steps(from, to, 99)...))
	}
	r, err := Compare(run(born, 1, 2), run(other, 1, 2))
	require.NoError(t, err)
	require.Equal(t, "w", r.First.Path())
	r, err = Compare(run(born, 1, 2), traceOf("op", steps(1, 2, 99)))
	require.NoError(t, err)
	require.True(t, r.Identical)
	r, err = Compare(traceOf("op", []trace.Record{born}), traceOf("op", []trace.Record{other}))
	require.NoError(t, err)
	require.False(t, r.Identical)
	require.Equal(t, &Shared{0, 0, 1, 1}, r.Shared)
	_, err = Compare(traceOf("op", []trace.Record{born}), run(born, 1, 2))
	require.EqualError(t, err, "the traces have no step in common: A holds none, B holds 1 to 2")
}

// What was cut short and is equal so far is neither identical nor different.
func TestCutTraces(t *testing.T) {
	cut := func(whole, bad int) *trace.Trace {
		tr := traceOf("op", steps(1, whole, bad))
		tr.Dir, tr.Truncated, tr.Whole = "x", true, whole
		return tr
	}
	whole := traceOf("op", steps(1, 4, 99))
	r, err := Compare(whole, cut(2, 99))
	require.NoError(t, err)
	require.False(t, r.Identical)
	require.True(t, r.Unknown())
	require.Equal(t, "none", r.Action)
	require.Equal(t, &Shared{2, 4, 1, 1}, r.Shared)
	require.Equal(t, "trace x was cut short: its last whole step is 2", *r.Truncated)

	r, err = Compare(cut(2, 2), whole)
	require.NoError(t, err)
	require.False(t, r.Unknown())
	require.Equal(t, "origin", r.First.Verdict)
	require.NotNil(t, r.Truncated)

	r, err = Replicas(cut(2, 99))
	require.NoError(t, err)
	require.True(t, r.Unknown())
	require.NotNil(t, r.Truncated)

	lay := func(tr *trace.Trace, layout string) *trace.Trace {
		named := laid(layout, 1, 1, tr.Ranks[0].Records)
		named.Truncated, named.Whole = tr.Truncated, tr.Whole
		return named
	}
	r, err = Layouts(lay(whole, "dp=1"), lay(cut(2, 99), "dp=1,tp=2"), nil)
	require.NoError(t, err)
	require.True(t, r.Unknown())
	require.Equal(t, &Shared{Steps: 2, Of: 4}, r.Shared)
	r, err = Layouts(lay(whole, "dp=1"), lay(cut(2, 2), "dp=1,tp=2"), nil)
	require.NoError(t, err)
	require.Equal(t, "origin", r.First.Verdict)
}

func TestDigestsOfOtherDefinitions(t *testing.T) {
	a, b := traceOf("op", steps(1, 1, 99)), traceOf("op", steps(1, 1, 99))
	a.Run.Digests, b.Run.Digests = map[string]string{"digest": "XXH3"}, map[string]string{"digest": "SHA"}
	for _, do := range []func(a, b *trace.Trace) (*Report, error){Compare, bitwise} {
		_, err := do(a, b)
		require.ErrorAs(t, err, &NotComparable{})
		require.ErrorContains(t, err, "digests are defined otherwise")
	}
}

// How many steps a run takes reaches a Call by what it reads, the learning rate; a Call that read the same was not made another by it.
func TestStepsOfARunAreNoCause(t *testing.T) {
	run := func(n, bad int) *trace.Trace {
		tr := traceOf("op", steps(1, n, bad))
		tr.Raw["config"] = map[string]any{"steps": float64(n)}
		return tr
	}
	r, err := Compare(run(4, 99), run(2, 2))
	require.NoError(t, err)
	require.Equal(t, "hardware", *r.Class)
	require.Equal(t, []Field{{"config.steps", "4", "2", true}}, r.ConfigDifferences)
}
