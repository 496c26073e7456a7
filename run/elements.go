package run

import (
	"firstbit/device"
	"firstbit/lowp"
	"firstbit/rng"
	"firstbit/train"
)

// elements fingerprints what a rank holds as a sum of a hash of every element's name, place and bits. A sum over the ranks
// depends on what they hold, not on which of them holds it: how an optimizer cuts its states is nothing to it.
func elements(t *train.Trainer) (sum uint64) {
	add := func(name string, x *device.Tensor, place func(i int) int) {
		key := rng.HashString(name)
		for i := range x.Len() {
			sum += rng.Mix(key, uint64(place(i)), lowp.Bits(x.Value(i)))
		}
	}
	itself := func(i int) int { return i }
	cut := map[string]bool{}
	held := t.Optim.States()
	for _, p := range t.Model.Params() {
		for _, h := range held[p] {
			at := p.Place.From(h.Lo).Index
			add(p.Name+".master", h.Master, at)
			add(p.Name+".m", h.M, at)
			add(p.Name+".v", h.V, at)
		}
		cut[p.Name+".master"], cut[p.Name+".m"], cut[p.Name+".v"] = true, true, true
	}
	for _, s := range t.States() {
		if !cut[s.Name] {
			add(s.Name, s.Tensor, itself)
		}
	}
	return sum
}
