package experiments

import "firstbit/train"

// A stream of each rank draws for whatever the rank has; another layout has other tokens there.
var rngShard = &Cause{
	About: About{
		ID: "rng-shard", Part: "E", Title: "Random numbers depend on the shard",
		Symptom:  "another layout of the same job drops other activations, though all streams are seeded and restored",
		Cause:    "masks are drawn from a stream of each rank in the order of its elements, not by the token that an element is of",
		Diagnose: "one run has a state of each rank's stream and the other none; then the first mask: the same place, other bits",
		Cure:     "masks by token: a counter-based generator keyed by global index",
		Source:   "PyTorch #168058", Layouts: everyAxis,
	},
	Found: Found{Root: "state.rng.dropout.tp", Class: "control", verdict: "missing"},
	config: func() train.Config {
		c := noisy()
		c.Streams = "indexed"
		return c
	},
	vary:   [2]variation{{schedule: 1}, {schedule: 1, set: []string{"streams=rank"}}},
	broken: setting{source: true},
	cured:  setting{source: true, set: []string{"streams=indexed"}},
}
