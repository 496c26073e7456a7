package experiments

// A distributed optimizer brings back its masters. The weights are made of them, or stay what they were.
var gatherSkip = &Cause{
	About: About{
		ID: "gather-skip", Part: "C", Title: "The parameter gather after a load is skipped",
		Symptom:    "the first step after the restore has a wrong loss, though masters and moments are right; later weights are of the right masters again",
		Cause:      "the masters are restored and the weights made of them are not gathered, so the first forward reads the weights of the beginning",
		Diagnose:   "restore: the gather, whose inputs are equal and whose weights are not",
		Cure:       "the gather at the end of every load",
		Source:     "Megatron-LM #6920",
		Precisions: []string{"bf16", "fp16"}, Only: "in fp32 weights are their masters, and copies of fewer bits are made of masters again", Layouts: []string{"dp=2", "cp=2", "ep=2", "dp=2,pp=2"},
	},
	Found:  Found{Root: "weights.bucket.*", Class: "state", verdict: "restore"},
	config: continued,
	stop:   3,
	vary: [2]variation{{schedule: 1, faults: []string{"drop@layers.1.attn.w?"}},
		{schedule: 1, faults: []string{"drop@layers.1.attn.w?", "drop@weights.bucket.*"}}},
	broken: setting{source: true},
	cured:  setting{faults: []string{"drop@layers.1.attn.w?"}},
}
