package experiments

import "firstbit/train"

// A stream of each rank draws for whatever the rank has; another layout has other tokens there.
var rngShard = &Cause{
	About: About{
		ID: "rng-shard", Part: "E", Title: "Random numbers depend on the shard",
		Symptom:  "another layout of the same job drops other activations, though all streams are seeded and restored",
		Cause:    "masks are drawn from a stream of each rank in the order of its elements, not by the token that an element is of",
		Diagnose: "diff --layouts --within rtol=1e-3: what other orders of addition change is less, and the first that is not is the mask",
		Cure:     "masks by token, from a counter-based generator keyed by global index, and the canonical recipe, so that nothing else differs",
		Source:   "PyTorch #168058", Layouts: []string{"tp=2", "cp=2", "dp=2,tp=2"},
		Precisions: scalable, Only: notCanonical,
	},
	Found: Found{Root: "layers.0.dropout.mask", within: "rtol=1e-3"},
	config: func() train.Config {
		c := crossing()
		c.Model.Dropout = 0.1
		return c
	},
	vary:   [2]variation{{schedule: 1}, {schedule: 1}},
	across: true,
	broken: setting{source: true, set: []string{"streams=rank"}},
	cured:  setting{source: true, set: []string{"streams=indexed"}, recipe: "canonical"},
	halves: []half{{"masks by token alone", setting{source: true, set: []string{"streams=indexed"}}}},
}
