package run

import (
	"firstbit/lowp"
	"firstbit/rng"
	"firstbit/state"
	"firstbit/train"
)

// piece is the fingerprint of what a rank holds of one tensor: which elements of the whole these are, and their bits.
type piece struct{ which, bits uint64 }

// pieces fingerprints what a rank holds: the bits of a piece are a sum of a hash of every element's name, index in the whole and bits.
func pieces(t *train.Trainer) (held []piece) {
	for _, s := range t.States(state.Role.Decides) {
		key := rng.HashString(s.Name)
		p := piece{which: key}
		for i := range s.Len() {
			at := uint64(s.Place.Index(i))
			p.which = rng.Mix(p.which, at)
			p.bits += rng.Mix(key, at, lowp.Bits(s.Value(i)))
		}
		held = append(held, p)
	}
	return held
}

// elements adds up the pieces of all ranks, those that replicas have alike once. The sum depends on what they hold, not on which of them holds it: how a
// layout and its optimizer cut it is nothing to it.
func elements(ranks []*session, step int) (sum uint64) {
	seen := map[piece]bool{}
	for _, r := range ranks {
		for _, p := range r.held[step] {
			if !seen[p] {
				seen[p] = true
				sum += p.bits
			}
		}
	}
	return sum
}
