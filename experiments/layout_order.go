package experiments

import "firstbit/train"

// The same training on other ranks is the same mathematics: a sum that one rank has whole is cut over several, and its parts are added elsewhere.
var layoutOrder = &Cause{
	About: About{
		ID: "layout-order", Part: "A", Title: "Another layout adds the same numbers in another order",
		Symptom:  "a run that is moved to another layout parts from the old one in the first step, though weights, data and seeds are the same",
		Cause:    "tensor and context parallelism cut sums over ranks: parts are rounded where one rank goes on adding",
		Diagnose: "diff --layouts of two traces with --parts: the first Call whose pieces, added up over ranks, differ while those of its inputs agree",
		Cure:     "the canonical recipe: one order of every sum, of which a rank has whole subtrees",
		Source:   "Megatron-LM #4740, TP-invariant training", Layouts: []string{"tp=2", "cp=4", "dp=2,tp=2"},
		Precisions: []string{"fp32"}, Only: "in others results are rounded to the format, which hides the parts that are rounded first",
	},
	Found:  Found{Root: "layers.0.ssm.*"},
	config: crossing,
	vary:   [2]variation{{schedule: 1}, {schedule: 1}},
	across: true,
	broken: setting{source: true},
	cured:  setting{source: true, recipe: "canonical"},
}

// scalable are the precisions in which the canonical recipe has the same bits on every layout.
var scalable = []string{"fp32", "bf16", "fp16"}

const notCanonical = "in others blocks and maxima depend on which tokens a rank has, so that no layout has the bits of another"

// crossing is one that has the same bits on every layout by the canonical recipe.
func crossing() train.Config {
	c := train.Tiny()
	c.Steps, c.Batch, c.Micro, c.Model.SSM.Groups, c.Model.MoE.Aux = 8, 1, 4, 2, "sequence"
	return c
}
