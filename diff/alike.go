package diff

import (
	"fmt"
	"strings"

	"firstbit/trace"
)

// alike lists the Calls of a step's end that several ranks ran on the same inputs, in the order of the first rank that has them. They make the
// same of it: no Call there draws, or depends on which rank runs it. Replicas run all of their updates so, ranks with shards the root of
// the norm.
func alike(t *trace.Trace) [][]spot {
	type same struct {
		trace.Key // of no rank
		in        string
	}
	var all [][]spot
	at := map[same]int{}
	var in strings.Builder
	for l := range t.Ranks {
		for i := range t.Ranks[l].Records {
			r := &t.Ranks[l].Records[i]
			if r.Phase != "opt" || r.Kind != "op" && r.Kind != "optim" || len(t.Ranks) < 2 || completes(r) {
				continue
			}
			in.Reset()
			for j := range r.In {
				in.WriteString(r.In[j].Name)
				in.WriteString(r.In[j].Digest)
			}
			k := same{r.Key(), in.String()}
			k.Rank = 0
			n, ok := at[k]
			if !ok {
				n = len(all)
				at[k], all = n, append(all, nil)
			}
			all[n] = append(all[n], spot{l, i})
		}
	}
	return all
}

// parted calls note for the Calls that wrote something else than most of those that read the same.
func parted(t *trace.Trace, note func(spot, judgement)) {
	for _, calls := range alike(t) {
		outvoted(t, calls, func(s, with spot, votes string) {
			of, other := &t.Ranks[s.lane].Records[s.at], &t.Ranks[with.lane].Records[with.at]
			class, why := originClass(other, of, nil, false)
			why = append([]string{votes, fmt.Sprintf("rank %d read the same", other.Rank)}, why...)
			note(s, judgement{"origin", class, why})
		})
	}
}
