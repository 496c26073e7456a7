package experiments

import "firstbit/train"

const scatterRacing = "embed.dw tokens:arrival/fp32"

// A token that occurs once has nothing to reorder; three occurrences are the fewest that show.
var embeddingScatter = &Cause{
	About: About{
		ID: "embedding-scatter", Part: "A", Title: "Scatter-add of repeated tokens' gradients",
		Symptom:  "the embedding rows of frequent tokens part first, rare ones stay equal for long",
		Cause:    "the gradients of a token's occurrences are added into its row in arrival order",
		Diagnose: "the embedding backward: inputs equal, rows of repeated tokens different",
		Cure:     "occurrences sorted by token, each segment added by a fixed tree",
		Source:   "PyTorch's documented nondeterminism of index_add and embedding backward on CUDA", Layouts: everyAxis,
	},
	Found:  Found{Root: "embed.dw", Class: "arrival"},
	config: train.Tiny,
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, plans: []string{scatterRacing}},
	cured:  setting{source: true, plans: []string{scatterRacing, "embed.dw tokens:pairwise/fp32"}},
}
