package diff

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/state"
	"firstbit/trace"
)

// pieceOf is a Call's output, of a whole that holds (sample, token, column), in fp32.
func pieceOf(t *testing.T, r trace.Record, place state.Place, whole func(i int) float32) trace.Record {
	t.Helper()
	n := place.Elements()
	for _, c := range place.Cuts {
		n /= c.Parts
	}
	var b []byte
	for i := range n {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(whole(place.Index(i))))
	}
	sum, ok := trace.SumOf(place, n, b)
	require.True(t, ok)
	g := &r.Out[0]
	d := device.DigestOf(lowp.FP32, []int{n}, b)
	g.Place, g.Parts, g.Dtype, g.Shape, g.Numel, g.Digest = &place, sum.String(), "fp32", []int{n}, n, hex.EncodeToString(d[:])
	return r
}

var wholeShape = []int{2, 4, 6}

func columnsOf(part, parts int) state.Place {
	return state.Place{Whole: wholeShape, Cuts: []state.Cut{{Dim: 2, Part: part, Parts: parts}}}
}

func asParts(t *trace.Trace) *trace.Trace {
	t.Run.Parts = true
	return t
}

func value(i int) float32 { return float32(i) }

func changed(at int, to float32) func(i int) float32 {
	return func(i int) float32 {
		if i == at {
			return to
		}
		return value(i)
	}
}

// cutInto is the trace of a layer that norms, multiplies and adds up, over so many ranks that have some of the columns of y each.
func cutInto(t *testing.T, ranks int, y func(i int) float32) *trace.Trace {
	var lanes [][]trace.Record
	for r := range ranks {
		n := pieceOf(t, op("norm", "x=1", "n"), columnsOf(0, 1), value)
		w := pieceOf(t, op("w1", "x=n<fwd l.norm", "y"), columnsOf(r, ranks), y)
		w.In[0].Digest = n.Out[0].Digest
		lanes = append(lanes, []trace.Record{n, w})
	}
	layout := "dp=1"
	if ranks > 1 {
		layout = "dp=1,tp=" + string(rune('0'+ranks))
	}
	return asParts(onAxis(laid(layout, 1, 2, lanes...), tpAt))
}

func TestPartsAddUpOverAnyCut(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 6} {
		for _, others := range []int{2, 3} {
			if ranks == others {
				continue
			}
			r := layouts(t, cutInto(t, ranks, value), cutInto(t, others, value))
			require.True(t, r.Identical, "%d %d: %+v", ranks, others, r.First)
			require.Equal(t, 2, r.Records)
		}
	}
	for at := range 48 { // one element of one piece, wherever it lies
		r := layouts(t, cutInto(t, 2, value), cutInto(t, 3, changed(at, -1)))
		require.False(t, r.Identical)
		require.Equal(t, "l.w1", r.First.Path())
		require.Equal(t, "origin", r.First.Verdict)
	}
	swapped := func(i int) float32 { return value(i ^ 1) } // the same elements in other places
	require.False(t, layouts(t, cutInto(t, 1, value), cutInto(t, 2, swapped)).Identical)

	without := cutInto(t, 2, changed(3, -1))
	without.Run.Parts = false
	r := layouts(t, cutInto(t, 1, value), without)
	require.True(t, r.Identical, "what has no sums is not compared")
	require.Contains(t, *r.NotRecorded, "train --parts")
	require.Equal(t, 1, r.Records)

	few := cutInto(t, 2, changed(3, -1)) // the other rank was not traced
	few.Ranks = few.Ranks[:1]
	r = layouts(t, cutInto(t, 1, value), few)
	require.True(t, r.Identical)
	require.Contains(t, *r.NotRecorded, "1 of 2 ranks")
	require.Nil(t, layouts(t, cutInto(t, 1, value), cutInto(t, 2, value)).NotRecorded)
}

// Copies of a piece count once, and must agree.
func TestCopiesOfAPiece(t *testing.T) {
	odd := cutInto(t, 2, value)
	odd.Ranks[1].Records[0] = pieceOf(t, odd.Ranks[1].Records[0], columnsOf(0, 1), changed(5, -1))
	r := layouts(t, cutInto(t, 3, value), odd)
	require.False(t, r.Identical)
	require.Equal(t, "l.norm", r.First.Path())
}

// A sum of ranks' parts is named by the Call that makes these, and a gather is held against what it gathered.
func TestPartsThroughCollectives(t *testing.T) {
	run := func(ranks int, sum, gathered func(i int) float32) *trace.Trace {
		var lanes [][]trace.Record
		for r := range ranks {
			var records []trace.Record
			n := pieceOf(t, op("norm", "x=1", "n"), columnsOf(r, ranks), value)
			records = append(records, n)
			if ranks == 1 {
				lanes = append(lanes, append(records, pieceOf(t, op("out", "x=n<fwd l.norm", "y"), columnsOf(0, 1), sum)))
				continue
			}
			g := pieceOf(t, meeting("tp", "norm.gather", "n", "n"), columnsOf(0, 1), gathered)
			g.Kernel, g.In[0].From = "all_gather", ptr("fwd l.norm")
			g.In[0].Digest = n.Out[0].Digest
			s := pieceOf(t, meeting("tp", "out.scatter", "a", "y"), columnsOf(r, ranks), sum)
			s.Kernel, s.In[0].From = "reduce_scatter", ptr("fwd l.out")
			lanes = append(lanes, append(records, g, op("out", "x=g<fwd "+g.Scope+"."+g.Name, string(rune('a'+r))), s))
		}
		layout := "dp=1"
		if ranks > 1 {
			layout = "dp=1,tp=2"
		}
		return asParts(onAxis(laid(layout, 1, 2, lanes...), tpAt))
	}
	require.True(t, layouts(t, run(1, value, value), run(2, value, value)).Identical)
	for _, swap := range []bool{false, true} {
		compare := func(a, b *trace.Trace) *Report {
			if swap {
				a, b = b, a
			}
			return layouts(t, a, b)
		}
		r := compare(run(1, value, value), run(2, changed(7, 1e9), value))
		require.Equal(t, "l.out", r.First.Path())
		require.Equal(t, "origin", r.First.Verdict)
		require.Contains(t, r.Evidence[1], "out.scatter")
	}
	r := layouts(t, run(2, value, changed(7, 1e9)), run(1, value, value))
	require.Contains(t, r.First.Path(), "norm.gather")
	require.Equal(t, "origin", r.First.Verdict)
	r = layouts(t, run(1, value, value), run(2, changed(7, 1e9), changed(7, 1e9)))
	require.Contains(t, r.First.Path(), "norm.gather", "a run may have it alone")
}

func ptr(s string) *string { return &s }

// With other microbatches what has a row for each token is compared over a step.
func TestPartsOverMicrobatches(t *testing.T) {
	run := func(micro int, y func(i int) float32) *trace.Trace {
		var records []trace.Record
		for m := range micro {
			place := state.Place{Whole: wholeShape, Cuts: []state.Cut{{Dim: 0, Part: m, Parts: micro}}}
			records = append(records, inMicro(pieceOf(t, op("y", "x=1", "y"), place, y), m))
		}
		return asParts(laid("dp=1", micro, 2/micro, records))
	}
	r := layouts(t, run(1, value), run(2, value))
	require.True(t, r.Identical, "%+v", r.First)
	require.True(t, r.Layouts)
	require.Positive(t, r.Records)
	require.Equal(t, "l.y", layouts(t, run(1, value), run(2, changed(40, -1))).First.Path())
}

func TestWithin(t *testing.T) {
	dumped := func(ranks int, y func(i int) float32) *trace.Trace {
		tr := cutInto(t, ranks, y)
		tr.Dir = t.TempDir()
		for i := range tr.Ranks {
			for j := range tr.Ranks[i].Records {
				g := &tr.Ranks[i].Records[j].Out[0]
				var b []byte
				of := value
				if j == 1 {
					of = y
				}
				for e := range g.Numel {
					b = binary.LittleEndian.AppendUint32(b, math.Float32bits(of(g.Place.Index(e))))
				}
				g.Dump = string(rune('a'+i)) + string(rune('a'+j))
				require.NoError(t, os.WriteFile(filepath.Join(tr.Dir, g.Dump), b, 0o600))
			}
		}
		return tr
	}
	compare := func(text string, a, b *trace.Trace) *Report {
		w, err := ParseWithin(text)
		require.NoError(t, err)
		r, err := Layouts(a, b, w)
		require.NoError(t, err)
		require.NotNil(t, r.Within)
		return r
	}
	next := changed(47, math.Nextafter32(47, 48))
	one := dumped(1, value)
	for _, text := range []string{"ulps=1", "rtol=1e-6"} {
		require.True(t, compare(text, one, dumped(2, next)).Identical, text)
	}
	require.False(t, compare("ulps=0", one, dumped(2, next)).Identical)
	for _, text := range []string{"ulps=1", "rtol=1e-3"} {
		for _, v := range []float32{48, float32(math.NaN()), float32(math.Inf(1))} {
			r := compare(text, one, dumped(2, changed(47, v)))
			require.Equal(t, "l.w1", r.First.Path(), text)
			require.Equal(t, "origin", r.First.Verdict)
		}
	}
	r := compare("rtol=1e-3", one, cutInto(t, 2, next))
	require.False(t, r.Identical)
	require.Equal(t, "l.w1", r.First.Path())
	require.Contains(t, r.Evidence[0], "unconfirmed")
	damaged := dumped(2, next)
	require.NoError(t, os.WriteFile(filepath.Join(damaged.Dir, "bb"), make([]byte, 96), 0o600))
	require.Contains(t, compare("rtol=1e-3", one, damaged).Evidence[0], "unconfirmed")

	for _, text := range []string{"", "ulps", "ulps=-1", "rtol=0", "rtol=2", "rtol=x", "rtol=NaN", "atol=1"} {
		_, err := ParseWithin(text)
		require.Error(t, err, text)
	}
}

// A Call is no origin where something that it reads was not compared, or differs on a rank that has another piece.
func TestPartsOfWeights(t *testing.T) {
	run := func(ranks int, weight, y func(i int) float32, from string) *trace.Trace {
		tr := cutInto(t, ranks, y)
		for i := range tr.Ranks {
			r := &tr.Ranks[i].Records[1]
			w := pieceOf(t, op("w", "w=1", "w"), columnsOf(i, ranks), weight).Out[0]
			if from == "" {
				w.Place, w.Parts = nil, ""
			}
			w.Name, w.From = "w", ptr("opt "+from)
			r.In = append(r.In, w)
		}
		return tr
	}
	broken := changed(7, 1e9)
	r := layouts(t, run(1, value, value, "optim.w"), run(2, value, broken, "optim.w"))
	require.Equal(t, "origin", r.First.Verdict, r.Evidence)
	r = layouts(t, run(1, value, value, "optim.w"), run(2, broken, broken, "optim.w"))
	require.Equal(t, "narrow", r.First.Verdict)
	require.Contains(t, r.Evidence[0], "w of l.w1 differs")
	r = layouts(t, run(1, value, value, ""), run(2, value, broken, ""))
	require.Equal(t, "narrow", r.First.Verdict)
	require.Contains(t, r.Evidence[0], "was not compared on all ranks: w")
}
