package experiments

import "firstbit/train"

// A chain of a tensor core's instructions is fixed on one architecture: how many products it adds at once, and how many of their bits it
// keeps, follow from the machine.
var gpuGeneration = &Cause{
	About: About{
		ID: "gpu-generation", Part: "A", Title: "The tensor cores of another generation add more products at once",
		Symptom:  "the job repeats itself on every GPU model, and parts between two of them from the first product on",
		Cause:    "an instruction aligns its products to the largest, cuts them off and adds them at once: 8 products and 24 bits on Ampere, 16 and 25 on Hopper",
		Diagnose: "the first product: inputs equal, outputs different, the plans differ in the architecture alone, and no order depends on arrival",
		Cure:     "one generation for the run and for its replay; or products added up in fp32, one by one, at the price of the tensor cores",
		Source:   "MMA-Sim, arXiv 2511.10909; Hawkeye, arXiv 2603.20421", Layouts: everyAxis,
		Precisions: []string{"fp32", "bf16", "fp16"}, Only: "the tensor cores of Ampere multiply no operands of fewer bits",
	},
	Found:  Found{Root: "layers.0.ssm.in_proj", Class: "topology", also: products},
	config: func() train.Config { c := train.Tiny(); c.Steps = 20; return c },
	vary:   [2]variation{{schedule: 1, plans: []string{"* k:mma(ampere)"}}, {schedule: 1, plans: []string{"* k:mma(hopper)"}}},
	broken: setting{source: true},
	cured:  setting{source: true, plans: []string{"* k:seq/fp32"}},
	halves: []half{
		{"in the forward alone", setting{source: true, plans: []string{"* phase=fwd k:seq/fp32"}}},
		{"in the backward alone", setting{source: true, plans: []string{"* phase=bwd k:seq/fp32"}}},
	},
}
