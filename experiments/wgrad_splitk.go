package experiments

import "firstbit/train"

const splitkRacing = "*.mlp.w1.dw k:splitk(4,arrival)/fp32"

// Splitting a long k over CTAs is how a weight gradient fills a GPU; the order in which they add is left to chance.
var wgradSplitK = &Cause{
	About: About{
		ID: "wgrad-splitk", Part: "A", Title: "Split-K weight gradients added as they finish",
		Symptom:  "activations and their gradients agree, weight gradients differ in their last bits",
		Cause:    "the weight-gradient kernel splits its reduction over CTAs that add into the result in arrival order",
		Diagnose: "that .dw matrix product: inputs equal, outputs different, its plan splits k",
		Cure:     "a slot per split and a fixed tree over the slots",
		Source:   "split-K and stream-K kernels of public GEMM libraries", Layouts: everyAxis,
	},
	Found:  Found{Root: "*.mlp.w1.dw", Class: "arrival"},
	config: train.Tiny,
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, plans: []string{splitkRacing}},
	cured:  setting{source: true, plans: []string{splitkRacing, "*.mlp.w1.dw k:splitk(4,pairwise)/fp32"}},
}
