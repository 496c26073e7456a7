package diff

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/trace"
)

// laid is a trace of a layout, of ranks on its dp axis unless at says otherwise.
func laid(layout string, micro, batch int, ranks ...[]trace.Record) *trace.Trace {
	t := traceOf("op", ranks...)
	t.Run.Layout = layout
	t.Raw = map[string]any{"config": map[string]any{"micro": float64(micro), "batch": float64(batch), "seq": 8.0}}
	return t
}

func onAxis(t *trace.Trace, at func(rank int) device.Coord) *trace.Trace {
	for i := range t.Ranks {
		for j := range t.Ranks[i].Records {
			t.Ranks[i].Records[j].Coord = at(i)
		}
	}
	return t
}

func tpAt(r int) device.Coord { return device.Coord{TP: r} }
func dpAt(r int) device.Coord { return device.Coord{DP: r} }

// shaped gives all a record reads and writes a shape.
func shaped(r trace.Record, n int) trace.Record {
	for _, list := range [][]trace.Sig{r.In, r.Out} {
		for i := range list {
			list[i].Shape = []int{n}
		}
	}
	return r
}

func inMicro(r trace.Record, m int) trace.Record { r.Microbatch = m; return r }

func bitwise(a, b *trace.Trace) (*Report, error) { return Layouts(a, b, nil) }

func layouts(t *testing.T, a, b *trace.Trace) *Report {
	t.Helper()
	r, err := Layouts(a, b, nil)
	require.NoError(t, err)
	return r
}

func TestLayoutsShareWhatIsWhole(t *testing.T) {
	one := func() *trace.Trace {
		return laid("dp=1", 1, 1, []trace.Record{shaped(op("norm", "x=1", "n"), 8), shaped(op("w1", "x=n", "abcd"), 8), shaped(op("sum", "x=s", "s"), 8),
			shaped(op("cut", "x=w<fwd l.w1", "whole"), 8), rec("metric", "", "loss", l("value=L"), nil), rec("metric", "", "state", l("value=S"), nil)})
	}
	rank := func(norm, part, sum, loss string) []trace.Record {
		return []trace.Record{shaped(op("norm", "x=1", norm), 8), shaped(op("w1", "x=n", part), 4), meeting("tp", "w1.gather", part, "abcd"),
			shaped(op("sum", "x=s", sum), 8), shaped(op("cut", "x=w<fwd l.w1", "other"), 8), rec("metric", "", "loss", l("value="+loss), nil), rec("metric", "", "state", l("value=T"), nil)}
	}
	two := func(norm, loss string) *trace.Trace {
		return onAxis(laid("dp=1,tp=2", 1, 1, rank(norm, "ab", "s0", loss), rank(norm, "cd", "s1", loss)), tpAt)
	}
	r := layouts(t, one(), two("n", "L"))
	require.True(t, r.Identical, "%+v", r.First)
	require.Equal(t, 2, r.Records, "norm and loss")
	require.Equal(t, 5, r.LeftOut, "a part, a part of a sum, what reads a part, the gather, the states")

	r = layouts(t, one(), two("m", "L"))
	require.Equal(t, "l.norm", r.First.Path())
	require.Equal(t, "origin", r.First.Verdict)
	r = layouts(t, one(), two("n", "M"))
	require.Equal(t, "loss", r.First.Name)
	require.Equal(t, "narrow", r.First.Verdict)
	require.Equal(t, "compare-configs", r.Action)
	odd := two("n", "L")
	odd.Ranks[1].Records[5].In = sigs(l("value=M"))
	require.Equal(t, "loss", layouts(t, one(), odd).First.Name, "a metric is whole on every rank")
	r = layouts(t, two("n", "L"), one())
	require.True(t, r.Identical)

	_, err := Compare(one(), two("n", "L"))
	require.ErrorContains(t, err, "--layouts")
	require.ErrorAs(t, err, &NotComparable{})
	odd = two("n", "L")
	odd.Raw = nil
	_, err = Layouts(one(), odd, nil)
	require.ErrorContains(t, err, "does not say")
	_, err = Layouts(one(), laid("dp=2", 1, 1, nil), nil)
	require.ErrorContains(t, err, "no step in common")
	_, err = Layouts(one(), laid("dp=2", 1, 1, []trace.Record{rec("op", "l", "other", nil, l("y=1"))}), nil)
	require.ErrorContains(t, err, "no record in common")
	same := layouts(t, one(), one())
	require.True(t, same.Identical)
	require.False(t, same.Layouts, "one layout is compared rank by rank")
}

// Microbatches are matched by their samples, and what ranks carry from one to the next is not.
func TestLayoutsMatchMicrobatchesBySamples(t *testing.T) {
	grad := func(m int, sum string) trace.Record {
		return inMicro(rec("op", "l", "grad", l("dw=1", "grad=0"), l("grad="+sum)), m)
	}
	ys := [4]string{"a", "b", "c", "d"}
	one := func(last string) *trace.Trace {
		var records []trace.Record
		for m, y := range ys {
			if m == 3 {
				y = last
			}
			records = append(records, inMicro(op("y", "x=1", y), m), grad(m, y+"sum"))
		}
		return laid("dp=1", 4, 1, append(records, rec("optim", "optim", "w", l("g=1"), l("w=w"))))
	}
	two := func(batch int) *trace.Trace {
		var ranks [][]trace.Record
		for r := range 2 {
			var records []trace.Record
			for m := range 2 {
				records = append(records, inMicro(op("y", "x=1", ys[2*r+m]), m), grad(m, "other"))
			}
			ranks = append(ranks, append(records, rec("optim", "optim", "w", l("g=1"), l("w=w"))))
		}
		return onAxis(laid("dp=2", 2, batch, ranks...), dpAt)
	}
	opt := func(t *trace.Trace) *trace.Trace {
		for i := range t.Ranks {
			last := len(t.Ranks[i].Records) - 1
			t.Ranks[i].Records[last].Phase = "opt"
		}
		return t
	}
	r := layouts(t, opt(one("d")), opt(two(1)))
	require.True(t, r.Identical, "%+v", r.First)
	require.Equal(t, 5, r.Records)
	require.Equal(t, 4, r.LeftOut)
	r = layouts(t, opt(one("e")), opt(two(1)))
	require.Equal(t, 3, r.First.Microbatch)
	r = layouts(t, opt(one("e")), opt(two(2)))
	require.True(t, r.Identical, "microbatch 3 has other samples")
	require.Equal(t, 1, r.Records, "the optimizer")
	require.Contains(t, r.Evidence[0], "outside of them")
}

// A sum that was last added to in another place has other terms.
func TestLayoutsLeaveOutSumsOfOtherTerms(t *testing.T) {
	run := func(layout, from, sum string) *trace.Trace {
		return laid(layout, 2, 1, []trace.Record{rec("op", "l", "grad", l("dw=1", "grad=0<bwd "+from), l("grad="+sum)), rec("metric", "", "loss", l("value=L"), nil)})
	}
	require.False(t, layouts(t, run("dp=1", "l.grad", "1"), run("dp=1,pp=2", "l.grad", "2")).Identical)
	r := layouts(t, run("dp=1", "l.grad", "1"), run("dp=1,pp=2", "head.grad", "2"))
	require.True(t, r.Identical)
	require.Equal(t, 1, r.Records)
}

// What adds up other inputs is another sum, whatever its form; how ranks come to one is the layout's.
func TestLayoutsLeaveOutSumsOfParts(t *testing.T) {
	run := func(layout string, rows int, sum string) *trace.Trace {
		dw := shaped(op("dw", "x=1", sum), 8)
		dw.In[0].Shape = []int{rows}
		return laid(layout, 1, 1, []trace.Record{dw, meeting("all", "norm", "1", sum), rec("metric", "", "loss", l("value=L"), nil)})
	}
	require.False(t, layouts(t, run("dp=1", 8, "1"), run("dp=1,cp=2", 8, "2")).Identical)
	r := layouts(t, run("dp=1", 8, "1"), run("dp=1,cp=2", 4, "2"))
	require.True(t, r.Identical)
	require.Equal(t, 1, r.Records)
	require.Equal(t, 2, r.LeftOut)
}
