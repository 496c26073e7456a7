package experiments

// A tuner times variants that are as fast as each other, so noise decides which of them the job keeps.
var autotuneSwap = &Cause{
	About: About{
		ID: "autotune-swap", Part: "A", Title: "The tuner keeps another variant of a product",
		Symptom:   "two runs of one program part in the first forward, each of them repeats itself while its tuner's cache lives",
		Cause:     "split-K and plain variants of the same product are equally fast, and the tuner keeps the one that finished first",
		Diagnose:  "the product: inputs equal, outputs different, plans of the same kernel differ, and the records of the kernel show what the tuner drew",
		Cure:      "the choice pinned, or kept with the checkpoint",
		Source:    "Megatron-LM #5718: timing-based autotune of Mamba's Triton kernels; vLLM #33123, where the tile of a product follows the number of rows",
		Reference: reportedTuner, Layouts: everyAxis,
	},
	Found:  Found{Root: "layers.3.mlp.*", Class: "tuner", also: []string{"layers.3.mlp.*"}},
	config: brief,
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, faults: []string{"autotune@layers.?.mlp.*"}},
	cured:  setting{source: true, faults: []string{"autotune@layers.?.mlp.*"}, plans: []string{"layers.?.mlp.w? k:seq", "layers.?.mlp.w?.d? k:seq"}},
	halves: []half{{"pinned in the forward alone", setting{source: true, faults: []string{"autotune@layers.?.mlp.*"}, plans: []string{"layers.?.mlp.w? k:seq"}}}},
}
