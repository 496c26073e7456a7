package diff

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/trace"
)

// send and recv are the two sides of a message.
func send(to, digest string) trace.Record {
	r := rec("p2p", "pipeline", "chunk.1.send", l("x="+digest+"<fwd l.y"), nil)
	peer := "rank " + to + " fwd pipeline.chunk.1.recv"
	r.Peer = &peer
	return r
}

func recv(from, digest string) trace.Record {
	r := rec("p2p", "pipeline", "chunk.1.recv", nil, l("y="+digest))
	peer := "rank " + from + " fwd pipeline.chunk.1.send"
	r.Peer = &peer
	return r
}

func op(name, in, out string) trace.Record { return rec("op", "l", name, l(in), l("y="+out)) }

func compareRanks(t *testing.T, a, b *trace.Trace) *Report {
	t.Helper()
	r, err := Compare(a, b)
	require.NoError(t, err)
	return r
}

// A receive is judged on what was sent.
func TestReceivesAreJudgedOnTheirSender(t *testing.T) {
	run := func(wrote, sent, received string) *trace.Trace {
		return traceOf("op", []trace.Record{op("y", "x=0", wrote), send("1", sent)},
			[]trace.Record{recv("0", received), op("z", "x="+received+"<fwd pipeline.chunk.1.recv", received)})
	}
	healthy := run("1", "1", "1")
	require.True(t, compareRanks(t, healthy, run("1", "1", "1")).Identical)

	r := compareRanks(t, healthy, run("2", "2", "2"))
	require.Equal(t, "l.y", r.First.Path())
	require.Equal(t, 0, r.First.Rank)
	require.Equal(t, "downstream", r.Ranks[1].Verdict)
	require.Equal(t, "one-rank", *r.Pattern)
	require.Len(t, r.Roots, 1, "the receive is a consequence")

	r = compareRanks(t, healthy, run("1", "1", "2")) // equal when sent
	require.Equal(t, "pipeline.chunk.1.recv", r.First.Path())
	require.Equal(t, "origin", r.First.Verdict)
	require.Equal(t, "identical", r.Ranks[0].Verdict)
	require.Contains(t, r.Evidence[0], "rank 0 sent is equal")

	r = compareRanks(t, healthy, run("1", "2", "2")) // in between, in memory
	require.Equal(t, "memory", r.First.Verdict)
	require.Equal(t, "pipeline.chunk.1.send", r.First.Path())

	other := run("2", "2", "2")
	healthy.Ranks, other.Ranks = healthy.Ranks[1:], other.Ranks[1:]
	r = compareRanks(t, healthy, other)
	require.Equal(t, "unresolved", r.First.Verdict)
	require.Equal(t, "trace-ranks", r.Action)
	require.Contains(t, r.Evidence[0], "trace rank 0, which sent it in fwd pipeline.chunk.1.send")
	require.Empty(t, r.Roots)

	odd := recv("0", "1")
	*odd.Peer = "the one before"
	oddB := odd
	oddB.Out = sigs(l("y=2"))
	require.Equal(t, "unresolved", compare(t, "op", []trace.Record{odd}, []trace.Record{oddB}).First.Verdict, "a trace of another maker")
}

func meeting(group, name, in, out string) trace.Record {
	r := rec("collective", "l", name, l("x="+in), l("y="+out))
	r.Group = group
	return r
}

// A collective's members are its group's: what ranks of another group bring to a Call of that name is nothing to it.
func TestMembersAreThoseOfTheGroup(t *testing.T) {
	run := func(in, out string) *trace.Trace {
		ranks := make([][]trace.Record, 4)
		for i := range ranks {
			group, x, y := "tp.0", "1", "1"
			if i >= 2 {
				group, x, y = "tp.1", in, out
			}
			ranks[i] = []trace.Record{op("x", "x=0", x), meeting(group, "a2a", x, y)}
		}
		t := traceOf("op", ranks...)
		t.Run.Groups = map[string][]int{"tp.0": {0, 1}, "tp.1": {2, 3}}
		for i := range t.Ranks {
			for j := range t.Ranks[i].Records {
				t.Ranks[i].Records[j].Coord = device.Coord{TP: i % 2, DP: i / 2}
			}
		}
		return t
	}
	r := compareRanks(t, run("1", "1"), run("1", "2"))
	require.Equal(t, "origin", r.First.Verdict)
	require.Equal(t, 2, r.First.Rank)
	require.Len(t, r.Roots, 2)
	require.Equal(t, "subset", *r.Pattern)
	require.Contains(t, r.Evidence, "subset dp=1")

	changed := run("1", "2")
	changed.Ranks[0].Records[0].Out, changed.Ranks[0].Records[1].In = sigs(l("y=3")), sigs(l("x=3"))
	r = compareRanks(t, run("1", "1"), changed)
	require.Equal(t, "origin", r.Ranks[2].Verdict, "rank 0 is no member")
}

// Who is traced, but not in this Call, is as one who is not: its input is not known to be equal.
func TestMembersWithoutARecordAreUntraced(t *testing.T) {
	run := func(out string, last int) *trace.Trace {
		ranks := [][]trace.Record{{op("x", "x=0", "1")}, {op("x", "x=0", "1")}}
		for i := range last {
			ranks[i] = append(ranks[i], meeting("tp", "a2a", "1", out))
		}
		t := traceOf("op", ranks...)
		t.Run.Groups = map[string][]int{"tp": {0, 1}}
		return t
	}
	require.Equal(t, "origin", compareRanks(t, run("1", 2), run("2", 2)).First.Verdict)
	for _, pair := range [][2]*trace.Trace{{run("1", 2), run("2", 1)}, {run("1", 1), run("2", 2)}, {run("1", 1), run("2", 1)}} {
		r := compareRanks(t, pair[0], pair[1])
		require.Equal(t, "unresolved", r.Ranks[0].Verdict)
		require.Empty(t, r.Roots)
	}
}

// What comes first is a matter of who met and who sent, never of a record's number.
func TestFirstIsByHappensBefore(t *testing.T) {
	// rank 0's origin stands far down its own records, rank 1's at the top of its own, but after what rank 0 sent.
	run := func(early, late string, apart bool) *trace.Trace {
		begin := []trace.Record{op("a", "x=0", "1"), op("b", "x=0", "1"), op("y", "x=0", early)}
		after := []trace.Record{op("z", "x=0", late)}
		if !apart {
			begin = append(begin, send("0", early))
			after = append([]trace.Record{recv("1", early)}, after...)
		}
		return traceOf("op", after, begin)
	}
	r := compareRanks(t, run("1", "1", false), run("2", "2", false))
	require.Equal(t, 1, r.First.Rank)
	require.Equal(t, "l.y", r.First.Path())
	r = compareRanks(t, run("1", "1", true), run("2", "2", true))
	require.Equal(t, 0, r.First.Rank, "independent: the lower rank")
	require.Len(t, r.Roots, 2)
}

// Two origins, of which one happened before the other though its bits did not reach it: the first in time is the one to look at.
func TestFirstOfTwoOrigins(t *testing.T) {
	run := func(x string, told bool) *trace.Trace {
		later := []trace.Record{op("z", "x=0", x)}
		before := []trace.Record{op("a", "x=0", "1"), op("q", "x=0", x)}
		if told {
			before = append(before, send("0", "1"))
			later = append([]trace.Record{recv("1", "1")}, later...)
		}
		return traceOf("op", later, before)
	}
	require.Equal(t, 0, compareRanks(t, run("1", false), run("2", false)).First.Rank)
	r := compareRanks(t, run("1", true), run("2", true))
	require.Equal(t, 1, r.First.Rank)
	require.Len(t, r.Roots, 2)
}

func TestEarliest(t *testing.T) {
	lanes := [][]trace.Record{
		{op("a", "x=0", "1"), meeting("g", "m", "1", "1"), op("b", "x=0", "1")},
		{meeting("g", "m", "1", "1"), op("c", "x=0", "1"), send("2", "1")},
		{op("d", "x=0", "1"), recv("1", "1")},
	}
	for i := range lanes {
		for j := range lanes[i] {
			lanes[i][j].Rank = i
		}
	}
	o := orderOf([]int{0, 1, 2}, lanes, nil)
	for _, c := range []struct {
		places []int
		first  []bool
	}{
		{[]int{0, 1, 1}, []bool{true, false, false}}, // through the meeting, through the message
		{[]int{2, 1, 0}, []bool{true, true, true}},
		{[]int{1, 0, none}, []bool{true, true, false}}, // one event
		{[]int{1, 0, 1}, []bool{true, true, false}},
		{[]int{0, 0, none}, []bool{true, false, false}},
		{[]int{3, 2, 2}, []bool{true, true, false}},
	} {
		require.Equal(t, c.first, o.earliest(c.places), "%v", c.places)
	}
	// A damaged trace: who was to send has no such record, and who was to come does not.
	lanes[1] = lanes[1][1:2]
	lanes[2] = append(lanes[2], meeting("g", "m", "1", "1"), meeting("g", "m", "1", "1"))
	require.Equal(t, []bool{true, true, true}, orderOf([]int{0, 1, 2}, lanes, nil).earliest([]int{0, 0, 0}))
}

func TestTogether(t *testing.T) {
	at := map[int]device.Coord{}
	for r := range 8 {
		at[r] = device.Coord{TP: r % 2, CP: r / 2 % 2, PP: r / 4}
	}
	require.Equal(t, "tp=1", together([]int{1, 3, 5, 7}, at))
	require.Equal(t, "tp=1, pp=0", together([]int{1, 3}, at))
	require.Equal(t, "pp=1", together([]int{4, 5, 6, 7}, at))
	require.Empty(t, together([]int{0, 7}, at))
	require.Empty(t, together(nil, at))
	for r := range 4 {
		at[r] = device.Coord{DP: r / 2, EP: r / 2}
	}
	for r := 4; r < 8; r++ {
		delete(at, r)
	}
	require.Equal(t, "dp=1", together([]int{2, 3}, at), "one axis that says it all")
}
