package diff

import (
	"fmt"

	"firstbit/device"
	"firstbit/trace"
)

// Replicas checks one trace against itself. A Call updates what it updates once. What must be equal: a recomputed activation and the forward's; what a rank received and what
// the other sent; what all-reduces and gathers leave on the ranks of their group; states, on the ranks that have the same
// piece of them, as their records say; metrics, on all; and what Calls of the optimizer wrote that read the same.
// Where most ranks agree, the others are at fault; between as many the first rank is believed.
func Replicas(t *trace.Trace) (*Report, error) {
	level, err := trace.ParseLevel(t.Run.Level)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", t.Dir, err)
	}
	r := &Report{Identical: true, Truncated: truncatedText(t), ConfigDifferences: []Field{}, Action: "none", Evidence: []string{}, Roots: []Finding{}, Ranks: []RankVerdict{}}
	found := make([]*mismatch, len(t.Ranks)) // by rank: its first
	note := func(s spot, j judgement) {
		if m := found[s.lane]; m == nil || s.at < m.at {
			found[s.lane] = &mismatch{s, &t.Ranks[s.lane].Records[s.at], j}
		}
	}
	steps := map[int]bool{}
	for l := range t.Ranks {
		records := t.Ranks[l].Records
		r.Records += len(records)
		for i := range records {
			if step := records[i].Iteration; step > 0 {
				steps[step] = true
			}
		}
		for _, b := range breaches(records) {
			note(spot{l, b.at}, judgement{"memory", "memory", []string{b.why(records)}})
			break
		}
		if at, forward := recomputedOtherwise(records); at != none {
			note(spot{l, at}, recomputation(forward, &records[at]))
		}
		if at := updatedAgain(records); at != none {
			_, why := launches(&records[at])
			note(spot{l, at}, judgement{"origin", "state", []string{fmt.Sprintf("its kernel ran %d times: %s", records[at].Launches, why)}})
		}
	}
	r.Steps = len(steps)
	r.NotRecorded = notRecorded(t)
	apart := arrivals{t: t, found: map[[2]int]int{}}
	for _, copies := range replicas(t) {
		outvoted(t, copies, func(s, with spot, why string) {
			rec := &t.Ranks[s.lane].Records[s.at]
			if at := apart.first(s, with.lane); at != none {
				plan := t.Ranks[s.lane].Records[at].Plan
				note(spot{s.lane, at}, judgement{"origin", "arrival", []string{why, "a Call before it depends on arrival, and wrote other bits from the same on each: " + plan}})
				return
			}
			note(s, copied(rec, why))
		})
	}
	parted(t, note)
	o := orderIn(t)
	o.arrived(note)
	r.verdicts(t, o, found, level)
	return r.end(), nil
}

// orderIn is the order of all records of a trace.
func orderIn(t *trace.Trace) *order {
	var ranks []int
	var lanes [][]trace.Record
	for i := range t.Ranks {
		ranks, lanes = append(ranks, t.Ranks[i].Rank), append(lanes, t.Ranks[i].Records)
	}
	return orderOf(ranks, lanes, t.Run.Groups)
}

// arrived notes what is not as it was sent.
func (o *order) arrived(note func(spot, judgement)) {
	for l, records := range o.lanes {
		for i := range records {
			r := &records[i]
			if !receives(r) {
				continue
			}
			if from, ok := o.sender(r); ok {
				sent := &o.lanes[from.lane][from.at]
				if len(sent.In) == 1 && len(r.Out) == 1 && sent.In[0].Digest != r.Out[0].Digest {
					note(spot{l, i}, judgement{"origin", "hardware", []string{fmt.Sprintf("what was received is not what rank %d sent", sent.Rank)}})
				}
			}
		}
	}
}

type mismatch struct {
	spot
	rec *trace.Record
	judgement
}

// verdicts turns each rank's first mismatch into the report's.
func (r *Report) verdicts(t *trace.Trace, o *order, found []*mismatch, level trace.Level) {
	at := map[int]device.Coord{}
	places := make([]int, len(found))
	for l, m := range found {
		rank := &t.Ranks[l]
		if len(rank.Records) > 0 {
			at[rank.Rank] = rank.Records[0].Coord
		}
		if m == nil {
			places[l] = none
			r.Ranks = append(r.Ranks, RankVerdict{Rank: rank.Rank, Verdict: "identical"})
			continue
		}
		places[l] = m.at
		f := findingOf(m.rec, m.verdict, level)
		r.Ranks = append(r.Ranks, RankVerdict{m.rec.Rank, f.Verdict, &f})
		r.Roots = append(r.Roots, f)
	}
	if len(r.Roots) == 0 {
		return
	}
	var first *mismatch
	for l, earliest := range o.earliest(places) {
		if m := found[l]; m != nil && earliest && (first == nil || m.rec.Iteration < first.rec.Iteration) {
			first = m
		}
	}
	r.First = r.Ranks[first.lane].First
	r.Identical, r.Action = false, actions[first.verdict]
	r.Evidence = append(r.Evidence, first.why...)
	if first.class != "" {
		r.Class = &first.class
	}
	r.pattern(at)
}

// recomputation judges a Call that was recomputed otherwise than it ran: from what its plans say, or, of the same inputs and plan, from whether
// it draws random numbers.
func recomputation(forward, again *trace.Record) judgement {
	j := judgement{"narrow", "", []string{"what was recomputed is not what the forward made"}}
	if again.Kind == "recompute" {
		return j
	}
	j.verdict = "origin"
	var why []string
	switch {
	case forward.Plan != again.Plan:
		j.class, why = planClass(forward.Plan, again.Plan)
		if depends(again.Plan) {
			why = append(why, "the recomputation does not repeat itself: its plan depends on arrival")
		}
	case depends(again.Plan):
		j.class, why = "arrival", []string{"the plan depends on arrival: " + again.Plan}
	case again.Kind == "draw":
		j.class, why = "state", []string{"it draws, from another state than the forward drew from"}
	default:
		j.class = "hardware"
	}
	j.why = append(j.why, why...)
	return j
}

// replicas lists the records that ranks must have alike, in the order of the first rank that has them.
func replicas(t *trace.Trace) [][]spot {
	type copied struct {
		trace.Key        // of no rank
		among     string // which ranks must have it
	}
	var all [][]spot
	at := map[copied]int{}
	for l := range t.Ranks {
		for i := range t.Ranks[l].Records {
			rec := &t.Ranks[l].Records[i]
			among, ok := among(rec)
			if !ok {
				continue
			}
			k := rec.Key()
			k.Rank = 0
			n, ok := at[copied{k, among}]
			if !ok {
				n = len(all)
				at[copied{k, among}], all = n, append(all, nil)
			}
			all[n] = append(all[n], spot{l, i})
		}
	}
	return all
}

// outvoted calls note for the copies that are not what most of them are.
func outvoted(t *trace.Trace, copies []spot, note func(s, with spot, why string)) {
	of := func(s spot) *trace.Record { return &t.Ranks[s.lane].Records[s.at] }
	text := func(rec *trace.Record) string {
		s := ""
		for _, g := range rec.Out {
			s += g.Digest
		}
		for _, g := range rec.In[:metricInputs(rec)] {
			s += g.Digest
		}
		return s
	}
	votes, first := map[string]int{}, map[string]spot{}
	most := ""
	for _, c := range copies {
		d := text(of(c))
		if _, seen := first[d]; !seen {
			first[d] = c
		}
		if votes[d]++; most == "" || votes[d] > votes[most] {
			most = d
		}
	}
	for _, c := range copies {
		rec := of(c)
		switch d := text(rec); {
		case d == most:
		case votes[d] == votes[most]:
			note(c, first[most], fmt.Sprintf("%s is not what rank %d has; of %d copies nothing tells which is right", trace.Path(rec.Scope, rec.Name), of(copies[0]).Rank, len(copies)))
		default:
			note(c, first[most], fmt.Sprintf("%s differs from what most of %d ranks have", trace.Path(rec.Scope, rec.Name), len(copies)))
		}
	}
}

// arrivals finds where ranks that compute the same part: of one Call that each runs by itself, and whose plan depends on arrival, the sums may
// be added in another order on each, and are no copies.
type arrivals struct {
	t     *trace.Trace
	found map[[2]int]int // by two lanes: the first such record of one of them
}

// first is the first Call of a rank before a record that wrote something else from the same than another rank's, as its plan allows; none: no Call did.
func (x *arrivals) first(before spot, with int) int {
	at, known := x.found[[2]int{before.lane, with}]
	if !known {
		at = x.search(before.lane, with)
		x.found[[2]int{before.lane, with}] = at
	}
	if at >= before.at {
		return none
	}
	return at
}

func (x *arrivals) search(lane, with int) int {
	others := map[trace.Key]*trace.Record{}
	for i := range x.t.Ranks[with].Records {
		r := &x.t.Ranks[with].Records[i]
		k := r.Key()
		k.Rank = 0
		others[k] = r
	}
	for i := range x.t.Ranks[lane].Records {
		r := &x.t.Ranks[lane].Records[i]
		k := r.Key()
		k.Rank = 0
		o := others[k]
		if o == nil || r.Kind != "op" && (r.Kind != "collective" || r.Group == o.Group) { // members of one leave the same
			continue
		}
		if depends(r.Plan) && sigsEqual(r.In, o.In) && !sigsEqual(r.Out, o.Out) {
			return i
		}
	}
	return none
}

// copied judges a copy that is not what the others are: a state went wrong before the window, a restored one in its restore; of the rest one trace
// shows only where.
func copied(rec *trace.Record, why string) judgement {
	switch {
	case rec.Kind == "load":
		return judgement{"restore", "state", []string{why}}
	case rec.Kind == "state":
		return judgement{"outside-window", "memory", []string{why}}
	}
	return judgement{"narrow", "memory", []string{why}}
}

// metricInputs: a metric's value is what it reads.
func metricInputs(rec *trace.Record) int {
	if rec.Kind == "metric" {
		return len(rec.In)
	}
	return 0
}
