package experiments

import "firstbit/train"

const combineRacing = "*.moe.combine slots:arrival/fp32"

// Two summands commute, so top-2 routing hides this; with three experts a token it shows.
var unpermuteScatter = &Cause{
	About: About{
		ID: "unpermute-scatter", Part: "A", Title: "MoE combine by scatter-add",
		Symptom:  "the forward itself differs between runs as soon as a token has three experts or more",
		Cause:    "the experts' outputs are scattered back and added into a token's row in arrival order",
		Diagnose: "moe.combine in the forward: inputs equal, outputs different",
		Cure:     "a token's slots added in slot order",
		Source:   "transformers #43362, vLLM #45683", Layouts: everyAxis,
	},
	Found: Found{Root: "*.moe.combine", Class: "arrival"},
	config: func() train.Config {
		c := train.Tiny()
		c.Model.MoE.TopK = 3
		return c
	},
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, plans: []string{combineRacing}},
	cured:  setting{source: true, plans: []string{combineRacing, "*.moe.combine slots:seq/fp32"}},
}
