package run

import (
	"fmt"

	"github.com/zeebo/xxh3"

	"firstbit/train"
)

// parts says of each of a rank's states which part of it the rank has. Two ranks with the same part have copies: of a weight, cut in the
// same place; of what the optimizer holds of it, the same elements too; of a stream, begun with the same numbers. All other states are
// everyone's.
func parts(t *train.Trainer) map[string]uint64 {
	cut := map[string]string{}
	moments := t.Optim.States()
	for _, p := range t.Model.Params() {
		where := fmt.Sprint(p.Place.Cuts)
		cut[p.Name] = where
		for _, suffix := range train.CopySuffixes {
			cut[p.Name+suffix] = where
		}
		for _, h := range moments[p] {
			where += fmt.Sprintf(" %d+%d", h.Lo, h.M.Len())
		}
		for _, suffix := range []string{".master", ".m", ".v"} {
			cut[p.Name+suffix] = where
		}
	}
	held := map[string]uint64{}
	for _, s := range t.Shown() {
		where := cut[s.Name]
		if train.IsStream(s.Name) {
			where = string(s.Bytes(nil))
		}
		held[s.Name] = xxh3.HashString(where)
	}
	return held
}

// held is what every rank holds.
func held(ranks []*session) []map[string]uint64 {
	all := make([]map[string]uint64, len(ranks))
	for i, r := range ranks {
		all[i] = r.parts
	}
	return all
}
