package experiments

import "firstbit/train"

// The loss itself is a sum over CTAs. Its gradient needs the counts only, so the difference
// stays in the reported number.
var auxLossAtomics = &Cause{
	About: About{
		ID: "aux-loss-atomics", Part: "A", Title: "Atomic adds in the fused load-balancing loss",
		Symptom:   "the load-balancing loss, and with it the reported loss, differs in its last bits; weights do not",
		Cause:     "the fused kernel's CTAs add their partial sums in arrival order",
		Diagnose:  "moe.router.aux_loss in the forward: inputs equal, outputs different, the plan depends on arrival",
		Cure:      "the unfused loss, or a fixed tree over the CTAs",
		Source:    "Megatron-LM #6254, #6967",
		Reference: reportedFusedLoss, Layouts: everyAxis,
	},
	Found:  Found{Root: "*.moe.router.aux_loss", Class: "arrival"},
	config: train.Tiny,
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, plans: []string{"*.router.aux_loss ctas:arrival/fp32"}},
	cured:  setting{source: true, plans: []string{"*.router.aux_loss ctas:arrival/fp32", "*.router.aux_loss ctas:pairwise/fp32"}},
}
