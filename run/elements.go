package run

import (
	"firstbit/lowp"
	"firstbit/rng"
	"firstbit/state"
	"firstbit/train"
)

// elements fingerprints what a rank holds as a sum of a hash of every element's name, index in the whole and bits. A sum over the ranks
// depends on what they hold, not on which of them holds it: how an optimizer cuts its states is nothing to it.
func elements(t *train.Trainer) (sum uint64) {
	for _, s := range t.States(state.Role.Decides) {
		key := rng.HashString(s.Name)
		for i := range s.Len() {
			sum += rng.Mix(key, uint64(s.Place.Index(i)), lowp.Bits(s.Value(i)))
		}
	}
	return sum
}
