package run

import (
	"fmt"

	"github.com/zeebo/xxh3"

	"firstbit/state"
	"firstbit/train"
)

// parts says of each of a rank's states which part of it the rank has. Two ranks with the same part have copies: of a weight, cut in the
// same place; of what the optimizer holds of it, the same elements too; of a stream, begun with the same numbers. All other states are
// everyone's.
func parts(t *train.Trainer) map[string]uint64 {
	held := map[string]uint64{}
	for _, s := range t.States(state.Role.Shown) {
		held[s.Name] = xxh3.HashString(fmt.Sprint(s.Place, s.Shape()))
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
