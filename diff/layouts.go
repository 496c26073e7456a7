package diff

import (
	"slices"

	"firstbit/trace"
)

// Layouts compares what two traces of different layouts have both, in a form that does not depend on the rank.
//
// A record has an ID without a rank. Microbatches count over all data-parallel ranks, in the order of their samples; where the two runs
// cut the samples of a step otherwise, nothing inside of microbatches is compared. An ID is shared where
//
//   - both traces have it, and everything it reads and writes has the same names, shapes and formats in both,
//   - in each trace all ranks that have it have written the same bits: what differs is a part, or a part of a sum; a metric is whole,
//   - it reads nothing under a name of both traces that is not shared itself: another part of a tensor may have its shape,
//   - it adds to nothing of which ranks have another share: what is carried from one microbatch to the next where they have other
//     microbatches, what was last added to in another place.
//
// What was written is compared, of metrics what was read. Messages and collectives are how a layout comes to it, and the fingerprint of a
// rank's own state is its own: they are left out.
func Layouts(a, b *trace.Trace) (*Report, error) {
	if a.Run.Layout == b.Run.Layout {
		return Compare(a, b)
	}
	if err := oneSchema(a, b); err != nil {
		return nil, err
	}
	level, err := commonLevel(a, b)
	if err != nil {
		return nil, err
	}
	s := sharing{skipped: map[trace.Key]bool{}, shared: map[trace.Key]bool{}}
	var cuts [2]cut
	for i, t := range []*trace.Trace{a, b} {
		if cuts[i], err = cutOf(t); err != nil {
			return nil, err
		}
	}
	s.within = cuts[0].samples() == cuts[1].samples()
	s.carried = cuts[0].micro != cuts[1].micro
	w, shared, err := commonWindow(a, b)
	if err != nil {
		return nil, err
	}
	for i, t := range []*trace.Trace{a, b} {
		s.side[i] = s.identify(t, w, level, cuts[i])
	}
	r := &Report{Identical: true, Layouts: true, Shared: &shared, Cut: cutText(a, b), ConfigDifferences: configDifferences(a.Raw, b.Raw), Action: "none",
		Evidence: []string{}, Roots: []Finding{}, Ranks: []RankVerdict{}}
	s.share(r)
	if r.Records == 0 {
		return nil, NotComparable{"the traces have no record in common"}
	}
	if !s.within {
		r.Evidence = append(r.Evidence, "a step's samples are cut into other microbatches: only what lies outside of them is compared")
	}
	s.judge(r, a, level)
	return r.end(), nil
}

// sharing is the records of two traces by their IDs.
type sharing struct {
	within  bool // microbatches of one number have the same samples
	carried bool // a rank has other microbatches: what is carried from one to the next is another sum
	side    [2]side
	shared  map[trace.Key]bool
	skipped map[trace.Key]bool // of the layouts alone
}

// side is one trace: of each ID the records, and the IDs in the order of their first records.
type side struct {
	by  map[trace.Key][]*trace.Record
	ids []trace.Key
}

func inside(phase string) bool { return phase == "fwd" || phase == "bwd" || phase == "rec" }

func (s *sharing) identify(t *trace.Trace, w *window, level trace.Level, c cut) side {
	found := side{by: map[trace.Key][]*trace.Record{}}
	for i := range t.Ranks {
		records := w.of(t.Ranks[i].Records)
		for j := range records {
			r := &records[j]
			k := globalKey(r, c)
			switch {
			case trace.LevelOf(r.Kind) > level:
				continue
			case r.Kind == "p2p" || r.Kind == "collective" || r.Kind == "metric" && r.Name == "state":
				s.skipped[k] = true
				continue
			}
			if found.by[k] == nil {
				found.ids = append(found.ids, k)
			}
			found.by[k] = append(found.by[k], r)
		}
	}
	return found
}

// globalKey is a key of no rank, with the microbatch's number over all data-parallel ranks.
func globalKey(r *trace.Record, c cut) trace.Key {
	k := r.Key()
	k.Rank = 0
	if inside(r.Phase) {
		k.Microbatch += r.Coord.DP * c.micro
	}
	return k
}

// share finds the shared IDs, in the order of run A's records, so that what a record reads is looked at before it.
func (s *sharing) share(r *Report) {
	a, b := s.side[0], s.side[1]
	r.LeftOut = len(s.skipped)
	produced := map[trace.Key]bool{} // by name, whether it is shared
	steps := map[int]bool{}
	for _, k := range a.ids {
		if len(b.by[k]) == 0 {
			r.LeftOut++
			continue
		}
		ok := s.comparable(k, produced)
		produced[madeBy(k, "")] = ok
		if !ok {
			r.LeftOut++
			continue
		}
		s.shared[k] = true
		r.Records++
		if k.Iteration > 0 {
			steps[k.Iteration] = true
		}
	}
	for _, k := range b.ids {
		if len(a.by[k]) == 0 {
			r.LeftOut++
		}
	}
	r.Steps = len(steps)
}

// madeBy is the place of a name, phase and path, in the run of another record; its own where no name is given.
func madeBy(k trace.Key, from string) trace.Key {
	phase, path := producerOf(from)
	if from == "" {
		phase, path = k.Phase, trace.Path(k.Scope, k.Name)
	}
	return trace.Key{Iteration: k.Iteration, Microbatch: k.Microbatch, Phase: phase, Name: path}
}

// comparable tells whether an ID of both traces is shared.
func (s *sharing) comparable(k trace.Key, produced map[trace.Key]bool) bool {
	as, bs := s.side[0].by[k], s.side[1].by[k]
	a, b := as[0], bs[0]
	switch {
	case k.Kind != "metric" && !(agree(as) && agree(bs)) || !sameForm(a.In, b.In) || !sameForm(a.Out, b.Out) || len(a.Flags)+len(b.Flags) > 0:
		return false
	case !inside(k.Phase):
		return true
	case !s.within || s.carried && updates(a):
		return false
	}
	for i := range a.In {
		from := a.In[i].From
		if from == nil || b.In[i].From == nil || *from != *b.In[i].From {
			if writes(a, a.In[i].Name) && (from != nil || b.In[i].From != nil) { // a sum of other terms
				return false
			}
			continue
		}
		if ok, known := produced[madeBy(k, *from)]; known && !ok {
			return false
		}
	}
	return true
}

// agree tells whether all ranks that have a record have the same bits.
func agree(records []*trace.Record) bool {
	for _, r := range records[1:] {
		if !sigsEqual(r.Out, records[0].Out) || len(r.Out) == 0 && !sigsEqual(r.In, records[0].In) {
			return false
		}
	}
	return true
}

func sameForm(a, b []trace.Sig) bool {
	return slices.EqualFunc(a, b, func(x, y trace.Sig) bool {
		return x.Name == y.Name && x.Dtype == y.Dtype && x.Scalar == y.Scalar && slices.Equal(x.Shape, y.Shape)
	})
}

// updates tells whether a record writes anew what it reads.
func updates(r *trace.Record) bool {
	return slices.ContainsFunc(r.In, func(g trace.Sig) bool { return writes(r, g.Name) })
}

func writes(r *trace.Record, name string) bool {
	return slices.ContainsFunc(r.Out, func(g trace.Sig) bool { return g.Name == name })
}

// judge finds the first shared record that differs, on the ranks of run A.
func (s *sharing) judge(r *Report, a *trace.Trace, level trace.Level) {
	c, err := cutOf(a)
	if err != nil {
		return // Layouts has asked before
	}
	var ranks, places []int
	var lanes [][]trace.Record
	for _, rank := range a.Ranks {
		place := none
		for i := range rank.Records {
			rec := &rank.Records[i]
			if place == none && s.other(rec, c) != nil {
				place = i
			}
		}
		ranks, lanes, places = append(ranks, rank.Rank), append(lanes, rank.Records), append(places, place)
	}
	for l, earliest := range orderOf(ranks, lanes, a.Run.Groups).earliest(places) {
		if places[l] == none || !earliest {
			continue
		}
		rec := &lanes[l][places[l]]
		if r.A == nil || rec.Iteration < r.A.Iteration || rec.Iteration == r.A.Iteration && rec.Microbatch < r.A.Microbatch {
			r.A, r.B = rec, s.other(rec, c)
		}
	}
	if r.A == nil {
		return
	}
	r.Identical = false
	verdict, why := s.verdict(r.A, r.B)
	f := findingOf(r.A, verdict, level)
	r.First, r.Action = &f, actions[verdict]
	if verdict == "origin" {
		r.Roots = append(r.Roots, f)
	} else if level >= trace.Op {
		r.Action = "compare-configs" // nothing deeper is shared
	}
	r.Evidence = append(r.Evidence, why)
}

// other is a record of run B that ought to be a shared one's equal and is not; nil: none.
func (s *sharing) other(a *trace.Record, c cut) *trace.Record {
	k := globalKey(a, c)
	if !s.shared[k] {
		return nil
	}
	for _, b := range s.side[1].by[k] {
		if !equal(a, b) {
			return b
		}
	}
	return nil
}

// equal compares what was written, or, where nothing was, read.
func equal(a, b *trace.Record) bool {
	if len(a.Out) == 0 {
		return sigsEqual(a.In, b.In)
	}
	return sigsEqual(a.Out, b.Out)
}

func (s *sharing) verdict(a, b *trace.Record) (string, string) {
	switch {
	case a.Kind == "state":
		return "outside-window", "state differs where the window starts: " + a.Name
	case a.Kind != "metric" && a.Kind != "module" && sigsEqual(a.In, b.In):
		return "origin", "all inputs equal, outputs differ"
	}
	return "narrow", "the first shared record that differs: what comes before it, the layouts do not share"
}
