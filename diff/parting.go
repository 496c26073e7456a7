package diff

import (
	"fmt"
	"strings"

	"firstbit/trace"
)

// judge finds the first record that differs, on the ranks of run A.
func (s *sharing) judge(r *Report, a *trace.Trace, w *window, level trace.Level) {
	c := s.between.side[0].batching
	first, closer, missed := s.search(a, c, w, level, func(d distance) bool { return d == far })
	if first == nil && missed > 0 {
		first, _, _ = s.search(a, c, w, level, func(d distance) bool { return d == far || d == unknown })
	}
	if within := s.between.within; within != nil {
		text := fmt.Sprintf("%s: %d records have other bits and are no further apart", within.text, closer)
		r.Within = &text
		if missed > 0 {
			r.Evidence = append(r.Evidence, fmt.Sprintf("unconfirmed: of %d records that have other bits no bytes were dumped: trace both runs with --dump '*'", missed))
		}
	}
	if first == nil {
		return
	}
	r.Identical = false
	verdict, why := s.verdict(first)
	r.A, r.B = first.a, first.b
	f := findingOf(first.a, verdict, level)
	r.First, r.Action = &f, actions[verdict]
	if verdict == "origin" {
		r.Roots = append(r.Roots, f)
	} else if level >= trace.Op {
		r.Action = "compare-configs" // nothing deeper is shared
	}
	r.Evidence = append(r.Evidence, why...)
}

// parting is a record of run A that differs from run B's.
type parting struct {
	a, b  *trace.Record
	spot            // of the record of run A that shows it
	whole *wholeKey // it differs by its pieces
}

// parting is that of a record of run A which shows that a whole differs: it does since the Call that made it.
func (b *between) parting(s spot, k wholeKey) *parting {
	p := b.side[0]
	r := &p.lanes[s.lane][s.at]
	from := k.name
	if name, input, ok := strings.Cut(k.name, "<"); ok {
		from = name
		for i := range r.In {
			if r.In[i].Name == input && r.In[i].From != nil && r.Kind == "optim" {
				from = *r.In[i].From
			}
		}
	}
	if at := p.find(s.lane, r, from); at >= 0 && at <= s.at {
		s.at = at
	}
	return &parting{a: &p.lanes[s.lane][s.at], spot: s, whole: &k}
}

// search finds the first record that differs as is asked, and counts on the way those that are near enough and those that cannot be told.
func (s *sharing) search(a *trace.Trace, c batching, w *window, level trace.Level, as func(distance) bool) (first *parting, closer, missed int) {
	var ranks, places []int
	var lanes [][]trace.Record
	var found []*parting
	seen := map[wholeKey]bool{}
	for l, rank := range a.Ranks {
		records := upTo(w.of(rank.Records), level)
		var m *parting
		for i := 0; i < len(records) && m == nil; i++ {
			rec, at := &records[i], spot{l, i}
			if s.byParts() {
				if k, differs := s.between.differs(at, as); differs {
					m = s.between.parting(at, k)
				}
				s.between.side[0].each(at, func(k wholeKey, _ argument) {
					if !seen[k] {
						seen[k] = true
						count(s.between.of(k), &closer, &missed)
					}
				})
			}
			switch d := s.distance(rec, c); {
			case m != nil || s.byParts() && rec.Kind == "optim" && s.between.clipped(rec):
			case d != equalBits && as(d):
				m = &parting{a: rec, b: s.other(rec, c), spot: at}
			default:
				count(d, &closer, &missed)
			}
		}
		place := none
		if m != nil {
			place = m.at
		}
		ranks, lanes, places, found = append(ranks, rank.Rank), append(lanes, records), append(places, place), append(found, m)
	}
	for l, earliest := range orderOf(ranks, lanes, a.Run.Groups).earliest(places) {
		m := found[l]
		if m == nil || !earliest {
			continue
		}
		if first == nil || m.a.Iteration < first.a.Iteration || m.a.Iteration == first.a.Iteration && m.a.Microbatch < first.a.Microbatch {
			first = m
		}
	}
	return first, closer, missed
}

func count(d distance, closer, missed *int) {
	switch d {
	case near:
		*closer++
	case unknown:
		*missed++
	}
}

// distance is how a shared record of run A stands to run B's.
func (s *sharing) distance(rec *trace.Record, c batching) distance {
	b := s.other(rec, c)
	switch {
	case b == nil:
		return equalBits
	case s.between.within == nil:
		return far
	}
	return s.between.within.records(rec, b, s.between.dirs)
}

// other is a record of run B that ought to be a shared one's equal and is not; nil: none.
func (s *sharing) other(a *trace.Record, c batching) *trace.Record {
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

func (s *sharing) verdict(m *parting) (string, []string) {
	if m.whole != nil {
		return s.between.verdict(m, s)
	}
	a, b := m.a, m.b
	switch {
	case a.Kind == "state":
		return "outside-window", []string{"state differs where the window starts: " + a.Name}
	case a.Kind != "metric" && a.Kind != "module" && sigsEqual(a.In, b.In):
		return "origin", []string{"all inputs equal, outputs differ"}
	}
	return "narrow", []string{"the first shared record that differs: what comes before it, the layouts do not share"}
}
