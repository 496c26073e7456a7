package train

import (
	"strings"

	"firstbit/rng"
)

// IsStream tells whether a state is that of a random stream.
func IsStream(state string) bool { return strings.HasPrefix(state, streamState) }

// seeded is a stream as it is at the beginning.
func (t *Trainer) seeded(name string) *rng.Stream { return rng.New(t.Seed, name+t.of(name)) }
