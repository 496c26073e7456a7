package diff

import (
	"slices"
	"strings"

	"firstbit/trace"
)

// A run that overlaps communication with computation has the records of another, and those of starting and waiting besides. Where one of two
// runs overlaps, what its collectives bring is compared with what the other's write.

const overlapField = "config.cluster.overlap"

const (
	waitSuffix = ".wait"
	completion = "completion" // of what is waited for in the order in which it comes
)

// landed is a rank's records as if nothing had been under way: what only starts is left out, and a wait stands for the collective it ends.
func landed(records []trace.Record) []trace.Record {
	kept := records[:0:0]
	for _, r := range records {
		if slices.Contains(r.Flags, "async-pending") || completes(&r) {
			continue
		}
		if name, waits := strings.CutSuffix(r.Name, waitSuffix); waits && r.Kind == "collective" {
			r.In, r.Name = brought(&r), name
		}
		for i := range r.In {
			if from := r.In[i].From; from != nil && strings.HasSuffix(*from, waitSuffix) {
				r.In = slices.Clone(r.In)
				waited := strings.TrimSuffix(*from, waitSuffix)
				r.In[i].From = &waited
			}
		}
		kept = append(kept, r)
	}
	return kept
}

// completes tells a record of the order in which a rank found done what it waits for, which is its own.
func completes(r *trace.Record) bool {
	return r.Kind == "op" && (r.Name == completion || strings.HasSuffix(r.Name, "."+completion))
}

// overlapAlike has both runs' records as if neither overlapped, if one does.
func (r *Report) overlapAlike(a, b []trace.Record) (_, _ []trace.Record) {
	if !slices.ContainsFunc(r.ConfigDifferences, func(d Field) bool { return d.Field == overlapField }) {
		return a, b
	}
	a, b = landed(a), landed(b)
	moved := map[trace.Key]bool{}
	for _, records := range [][]trace.Record{a, b} {
		for i := range records {
			if redraws(&records[i]) && movesStream(&records[i]) {
				moved[records[i].Key()] = true
			}
		}
	}
	passedOn(a, moved)
	passedOn(b, moved)
	return a, b
}

// passedOn leaves the streams out of recomputed draws, but for those that moved them. Who reads a stream after such a draw reads what was there before it.
func passedOn(records []trace.Record, moved map[trace.Key]bool) {
	before := map[string]*string{} // by the draw: who wrote the stream
	for i := range records {
		x := &records[i]
		for in := range x.In {
			if from := x.In[in].From; from != nil && before[*from] != nil {
				x.In = slices.Clone(x.In)
				x.In[in].From = before[*from]
			}
		}
		if !redraws(x) {
			continue
		}
		draw := x.Phase + " " + trace.Path(x.Scope, x.Name) + "#stream"
		delete(before, draw)
		if !moved[x.Key()] {
			if in := slices.IndexFunc(x.In, func(g trace.Sig) bool { return g.Name == "stream" }); in >= 0 {
				before[draw] = x.In[in].From
			}
			x.In, x.Out = lacking(x.In, "stream"), lacking(x.Out, "stream")
		}
	}
}

// redraws tells a draw from a copy of its stream's state. Where the stream itself stands meanwhile is a matter of what stands beside it.
func redraws(r *trace.Record) bool { return r.Kind == "draw" && hasName(r.In, "before") }

func lacking(sigs []trace.Sig, name string) []trace.Sig {
	return slices.DeleteFunc(slices.Clone(sigs), func(g trace.Sig) bool { return g.Name == name })
}
