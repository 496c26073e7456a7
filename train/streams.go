package train

import "firstbit/rng"

// seeded is a stream as it is at the beginning.
func (t *Trainer) seeded(name string) *rng.Stream { return rng.New(t.Seed, name+t.of(name)) }
