package diff

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"firstbit/trace"
)

// Replicas checks one trace against itself. What must be equal: a recomputed activation and the forward's; over the
// ranks of a group, what all-reduces and gathers leave, weights and other states that are not a rank's own, and metrics.
// Where most ranks agree, the others are at fault; between as many the first rank is believed.
func Replicas(t *trace.Trace) (*Report, error) {
	level, err := trace.ParseLevel(t.Run.Level)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", t.Dir, err)
	}
	r := &Report{Identical: true, ConfigDifferences: []Field{}, Action: "none", Evidence: []string{}, Roots: []Finding{}, Ranks: []RankVerdict{}}
	found := map[int]*mismatch{} // by rank: its first
	note := func(rec *trace.Record, why string) {
		if m := found[rec.Rank]; m == nil || rec.Seq < m.rec.Seq {
			found[rec.Rank] = &mismatch{rec, why}
		}
	}
	steps := map[int]bool{}
	for i := range t.Ranks {
		for j := range t.Ranks[i].Records {
			r.Records++
			if step := t.Ranks[i].Records[j].Iteration; step > 0 && !steps[step] {
				steps[step] = true
				r.Steps++
			}
		}
		if rec := recomputedOtherwise(t.Ranks[i].Records); rec != nil {
			note(rec, "what was recomputed is not what the forward made")
		}
	}
	for _, ranks := range sortedGroups(t.Run.Groups) {
		for _, copies := range replicas(t, ranks) {
			outvoted(copies, func(rec *trace.Record, of int) {
				note(rec, fmt.Sprintf("%s differs from what most of %d ranks have", trace.Path(rec.Scope, rec.Name), of))
			})
		}
	}
	r.verdicts(t, found, level)
	return r, nil
}

type mismatch struct {
	rec *trace.Record
	why string
}

// verdicts turns each rank's first mismatch into the report's.
func (r *Report) verdicts(t *trace.Trace, found map[int]*mismatch, level trace.Level) {
	var first *mismatch
	for i := range t.Ranks {
		m := found[t.Ranks[i].Rank]
		if m == nil {
			r.Ranks = append(r.Ranks, RankVerdict{Rank: t.Ranks[i].Rank, Verdict: "identical"})
			continue
		}
		f := findingOf(m.rec, replicaVerdict(m.rec), level)
		r.Ranks = append(r.Ranks, RankVerdict{m.rec.Rank, f.Verdict, &f})
		r.Roots = append(r.Roots, f)
		if first == nil || m.rec.Iteration < first.rec.Iteration || m.rec.Iteration == first.rec.Iteration && m.rec.Seq < first.rec.Seq {
			first, r.First = m, &f
		}
	}
	if first == nil {
		return
	}
	r.Identical, r.Action = false, "trace-deeper"
	r.Evidence = append(r.Evidence, first.why)
	switch {
	case first.rec.Kind == "state":
		r.Action = "widen-window"
	case r.First.Verdict == "origin":
		r.Action = "investigate-call"
	}
	class, pattern := "state", "subset"
	switch len(r.Roots) {
	case 1:
		pattern = "one-rank"
	case len(t.Ranks):
		pattern = "all-ranks"
	}
	if first.rec.Phase != "rec" {
		class = "memory"
	}
	r.Class, r.Pattern = &class, &pattern
}

// replicaVerdict: a Call that alone was recomputed otherwise is an origin; a state went wrong before the window; of the
// rest one trace shows only where.
func replicaVerdict(rec *trace.Record) string {
	switch {
	case rec.Kind == "state":
		return "outside-window"
	case rec.Phase == "rec" && rec.Kind != "recompute":
		return "origin"
	}
	return "narrow"
}

// recomputedOtherwise is the first record of a recomputation that is not the forward's: of a Call where Calls are traced,
// of the pair it ends in otherwise.
func recomputedOtherwise(records []trace.Record) *trace.Record {
	forward := map[trace.Key]*trace.Record{}
	for i := range records {
		rec := &records[i]
		switch {
		case rec.Phase == "fwd":
			forward[rec.Key()] = rec
		case rec.Phase != "rec" || rec.Kind == "module" || rec.Kind == "kernel":
		case rec.Kind == "recompute":
			if len(rec.In) == 1 && len(rec.Out) == 1 && rec.In[0].Digest != rec.Out[0].Digest {
				return rec
			}
		default:
			k := rec.Key()
			k.Phase = "fwd"
			if f := forward[k]; f != nil && remade(f, rec) {
				return rec
			}
		}
	}
	return nil
}

// remade tells whether an output that both wrote anew differs. What a Call also reads it has changed in place, such
// as a stream, which a recomputation leaves alone.
func remade(forward, again *trace.Record) bool {
	named := func(name string) func(trace.Sig) bool { return func(g trace.Sig) bool { return g.Name == name } }
	for _, g := range forward.Out {
		i := slices.IndexFunc(again.Out, named(g.Name))
		if i >= 0 && !slices.ContainsFunc(forward.In, named(g.Name)) && again.Out[i].Digest != g.Digest {
			return true
		}
	}
	return false
}

func sortedGroups(groups map[string][]int) [][]int {
	var names []string
	for n := range groups { // sorted below
		names = append(names, n)
	}
	sort.Strings(names)
	var ranks [][]int
	for _, n := range names {
		ranks = append(ranks, groups[n])
	}
	return ranks
}

// replicas lists the records that the ranks of a group must have alike, in the order of the first rank.
func replicas(t *trace.Trace, ranks []int) [][]*trace.Record {
	var all [][]*trace.Record
	at := map[trace.Key]int{}
	for i := range t.Ranks {
		if !slices.Contains(ranks, t.Ranks[i].Rank) {
			continue
		}
		for j := range t.Ranks[i].Records {
			rec := &t.Ranks[i].Records[j]
			if !replicated(rec) {
				continue
			}
			k := rec.Key()
			k.Rank = 0
			n, ok := at[k]
			if !ok {
				n = len(all)
				at[k], all = n, append(all, nil)
			}
			all[n] = append(all[n], rec)
		}
	}
	return all
}

// replicated tells whether every rank must have the record's outputs: of states the optimizer's are a rank's
// own, of collectives what a reduce-scatter leaves.
func replicated(rec *trace.Record) bool {
	switch rec.Kind {
	case "metric":
		return rec.Name != "state" // the fingerprint of a rank's own
	case "state":
		return !strings.HasSuffix(rec.Name, ".m") && !strings.HasSuffix(rec.Name, ".v") && !strings.HasSuffix(rec.Name, ".master")
	case "collective":
		return len(rec.Out) == 1 && len(rec.In) > 0 && rec.Out[0].Numel >= rec.In[0].Numel
	}
	return false
}

// outvoted calls note for the copies that are not what most of them are.
func outvoted(copies []*trace.Record, note func(rec *trace.Record, of int)) {
	text := func(rec *trace.Record) string {
		s := ""
		for _, g := range append(rec.Out, rec.In[:metricInputs(rec)]...) {
			s += g.Digest
		}
		return s
	}
	votes := map[string]int{}
	most := ""
	for _, c := range copies {
		d := text(c)
		if votes[d]++; most == "" || votes[d] > votes[most] {
			most = d
		}
	}
	for _, c := range copies {
		if text(c) != most {
			note(c, len(copies))
		}
	}
}

// metricInputs: a metric's value is what it reads.
func metricInputs(rec *trace.Record) int {
	if rec.Kind == "metric" {
		return len(rec.In)
	}
	return 0
}
