package experiments

// A library chooses a kernel by the shape of its operands, and the number of rows is that of the tokens that happen to be computed together.
var rowsTile = &Cause{
	About: About{
		ID: "rows-tile", Part: "E", Title: "The tile of a product follows the number of its rows",
		Symptom:  "a token's result depends on how many others are computed with it: microbatches of another size part, though every sum over tokens is fixed",
		Cause:    "for few rows the library takes a kernel with another tile, which adds the products of every row in another order",
		Diagnose: "diff --layouts: over a whole step the product's input agrees and its output does not",
		Cure:     "one kernel whatever the number of rows",
		Source:   "vLLM #33123", Layouts: []string{"dp=1", "dp=2", "tp=2", "ep=2"},
		Precisions: scalable, Only: notCanonical,
	},
	Found:  Found{Root: "layers.1.attn.w?"},
	config: crossing,
	vary:   [2]variation{{schedule: 1, set: []string{"batch=4", "micro=1"}}, {schedule: 1}},
	across: true,
	broken: setting{source: true, recipe: "canonical", plans: []string{"layers.1.attn.w? rows=1-64 k:lanes(8)"}},
	cured:  setting{source: true, recipe: "canonical"},
}
