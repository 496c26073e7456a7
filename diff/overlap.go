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
		if slices.Contains(r.Flags, "async-pending") || r.Kind == "op" && (r.Name == completion || strings.HasSuffix(r.Name, "."+completion)) {
			continue
		}
		if name, waits := strings.CutSuffix(r.Name, waitSuffix); waits && r.Kind == "collective" {
			r.In, r.Name = brought(&r), name
		}
		if r.Kind == "draw" && hasName(r.In, "before") { // it draws from the copy; where the stream stands meanwhile is a matter of what stands beside it
			r.In, r.Out = lacking(r.In, "stream"), lacking(r.Out, "stream")
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

// overlapAlike has both runs' records as if neither overlapped, if one does.
func (r *Report) overlapAlike(a, b []trace.Record) (_, _ []trace.Record) {
	if !slices.ContainsFunc(r.ConfigDifferences, func(d Field) bool { return d.Field == overlapField }) {
		return a, b
	}
	return landed(a), landed(b)
}

func lacking(sigs []trace.Sig, name string) []trace.Sig {
	return slices.DeleteFunc(slices.Clone(sigs), func(g trace.Sig) bool { return g.Name == name })
}
