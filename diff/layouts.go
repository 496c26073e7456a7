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
//
// Of what both traces have sums over pieces (train --parts), the pieces of all ranks are compared together, also where they are other
// pieces. The first that differs is named; with within, the first whose dumped bytes are further apart than that.
func Layouts(a, b *trace.Trace, within *Within) (*Report, error) {
	if a.Run.Layout == b.Run.Layout && oneCut(a, b) {
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
	var cuts [2]batching
	for i, t := range []*trace.Trace{a, b} {
		if cuts[i], err = batchingOf(t); err != nil {
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
	r := &Report{Identical: true, Layouts: true, Shared: &shared, Truncated: truncatedText(a, b), ConfigDifferences: configDifferences(a.Raw, b.Raw), Action: "none",
		Evidence: []string{}, Roots: []Finding{}, Ranks: []RankVerdict{}}
	s.between = between{dirs: [2]string{a.Dir, b.Dir}, within: within, found: map[wholeKey]distance{}}
	for i, t := range []*trace.Trace{a, b} {
		s.between.side[i] = partsOf(t, w, level, cuts[i], s.within)
	}
	r.NotRecorded = lackingParts(a, b)
	s.share(r)
	if r.Records == 0 {
		return nil, NotComparable{"the traces have no record in common"}
	}
	if !s.within {
		r.Evidence = append(r.Evidence, s.otherMicrobatches())
	}
	s.judge(r, a, w, level)
	return r.end(), nil
}

// sharing is the records of two traces by their IDs.
type sharing struct {
	within  bool // microbatches of one number have the same samples
	carried bool // a rank has other microbatches: what is carried from one to the next is another sum
	side    [2]side
	shared  map[trace.Key]bool
	skipped map[trace.Key]bool // of the layouts alone
	between between            // what is compared by its pieces
}

// byParts tells whether both traces have sums over pieces.
func (s *sharing) byParts() bool {
	return len(s.between.side[0].wholes) > 0 && len(s.between.side[1].wholes) > 0
}

func (s *sharing) otherMicrobatches() string {
	if x, y := s.between.side[0].batching, s.between.side[1].batching; x.dp*x.micro*x.batch != y.dp*y.micro*y.batch || x.seq != y.seq {
		return "a step has other samples in one run than in the other: only what lies outside of them is compared"
	}
	if s.byParts() {
		return "a step's samples are cut into other microbatches: inside of them what has a row for each token is compared, over a whole step"
	}
	return "a step's samples are cut into other microbatches: only what lies outside of them is compared"
}

// side is one trace: of each ID the records, and the IDs in the order of their first records.
type side struct {
	by  map[trace.Key][]*trace.Record
	ids []trace.Key
}

func inside(phase string) bool { return phase == "fwd" || phase == "bwd" || phase == "rec" }

func (s *sharing) identify(t *trace.Trace, w *window, level trace.Level, c batching) side {
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
func globalKey(r *trace.Record, c batching) trace.Key {
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
	whole, wholeB := s.whole(0), s.whole(1)
	for _, k := range a.ids {
		both := len(b.by[k]) > 0
		ok := both && s.comparable(k, produced)
		if both || whole[k] {
			produced[madeBy(k, "")] = ok || whole[k]
		}
		if !ok && !whole[k] {
			r.LeftOut++
			continue
		}
		s.shared[k] = ok
		r.Records++
		if k.Iteration > 0 {
			steps[k.Iteration] = true
		}
	}
	for _, k := range b.ids {
		if len(a.by[k]) == 0 && !wholeB[k] {
			r.LeftOut++
		}
	}
	r.Steps = len(steps)
}

// whole is the IDs of a run of which all that is written is compared by its pieces.
func (s *sharing) whole(side int) map[trace.Key]bool {
	ids := map[trace.Key]bool{}
	p := s.between.side[side]
	for l, records := range p.lanes {
		for i := range records {
			if s.between.compared(side, spot{l, i}) {
				ids[globalKey(&records[i], p.batching)] = true
			}
		}
	}
	return ids
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
