package experiments

// A kernel that adds to what is there must not be timed on what is there.
var tuningWrites = &Cause{
	About: About{
		ID: "tuning-writes", Part: "E", Title: "Timing runs add into the live output",
		Symptom:  "the first step alone differs from a run whose tuner found its choice in a cache",
		Cause:    "the tuner runs a kernel that accumulates several times on the real output, which it does not put back",
		Diagnose: "the product: inputs equal, outputs different in the first step only; its kernel ran twice",
		Cure:     "timing on copies, or outputs put back",
		Source:   "Triton #4217", Layouts: everyAxis,
	},
	Found:  Found{Root: "layers.3.mlp.w1.dw", Class: "tuner", also: []string{"layers.3.mlp.w1.dw"}},
	config: divisible,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"repeat@layers.3.mlp.w1.dw phase=bwd step=1"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
