package experiments

import "firstbit/train"

// No sum differs anywhere: two kernels, each deterministic, take different experts of an exact
// tie. Logits rounded to bf16, as upstream's default has them, tie often.
var topkTies = &Cause{
	About: About{
		ID: "topk-ties", Part: "B", Title: "Fused and unfused top-k break exact ties differently",
		Symptom:  "routes flip with no numerical noise at all: every logit is the same to the bit",
		Cause:    "the radix kernel takes the lower index of equal values, the naive one the lower bit-reversed index",
		Diagnose: "moe.router.topk: inputs equal, outputs different, the plans differ in the kernel",
		Cure:     "one tie rule for both kernels",
		Source:   "torchtitan #3600, vLLM #55514", Layouts: everyAxis,
	},
	Found: Found{Root: "*.moe.router.topk*", Class: "tie", flips: true},
	config: func() train.Config {
		c := train.Tiny()
		c.Model.MoE.RouterDtype, c.Model.MoE.BiasRate = "bf16", 0
		return c
	},
	vary:   [2]variation{{schedule: 1, plans: []string{"*.router.topk* fused=false"}}, {schedule: 1, plans: []string{"*.router.topk* fused=true"}}},
	broken: setting{source: true},
	cured:  setting{source: true, plans: []string{"*.router.topk* tie=low"}},
}
