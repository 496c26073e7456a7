package experiments

// A report sorted by name puts first what came later.
var keyOrderFirst = &Cause{
	About: About{
		ID: "key-order-first", Part: "D", Title: "The first mismatch by name is not the first in time",
		Symptom:  "a tool that lists what differs by name blames the attention of the first layers",
		Cause:    "the MLP of a later layer races in the backward; all layers before it, and the embedding, follow",
		Diagnose: "in the order of execution the first that differs is that product, with equal inputs; by name others come before it",
		Cure:     "mismatches read in the order of execution",
		Source:   "comparison of two JSON files of digests, keys sorted", Layouts: everyAxis,
	},
	Found:  Found{Root: "layers.3.mlp.w2.dw", Class: "arrival", later: true},
	config: brief,
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, plans: []string{"layers.3.mlp.w2.dw k:splitk(4,arrival)"}},
	cured:  setting{source: true, plans: []string{"layers.3.mlp.w2.dw k:splitk(4)"}},
}
