package diff

import (
	"slices"

	"firstbit/trace"
)

// recomputedOtherwise is the first record of a recomputation that is not the forward's, and the forward's: of a Call where Calls are traced,
// of the pair it ends in otherwise.
func recomputedOtherwise(records []trace.Record) (again int, first *trace.Record) {
	forward := map[trace.Key]*trace.Record{}
	for i := range records {
		rec := &records[i]
		switch {
		case rec.Phase == "fwd":
			forward[rec.Key()] = rec
		case rec.Phase != "rec" || rec.Kind == "module" || rec.Kind == "kernel":
		case rec.Kind == "recompute":
			if len(rec.In) == 1 && len(rec.Out) == 1 && rec.In[0].Digest != rec.Out[0].Digest {
				return i, nil
			}
		default:
			k := rec.Key()
			k.Phase = "fwd"
			if f := forward[k]; f != nil && remade(f, rec) {
				return i, f
			}
		}
	}
	return none, nil
}

// updatedAgain is the first record of a Call whose kernel ran more than once on what it updates; none: there is none.
func updatedAgain(records []trace.Record) int {
	for i := range records {
		if r := &records[i]; r.Launches > 1 && r.Kind != "module" && r.Kind != "kernel" {
			if class, _ := launches(r); class == "state" {
				return i
			}
		}
	}
	return none
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
