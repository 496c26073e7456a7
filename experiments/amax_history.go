package experiments

import "firstbit/train"

// Delayed scaling scales by the steps before, so what these saw is state.
var amaxHistory = &Cause{
	About: About{
		ID: "amax-history", Part: "C", Title: "The amax history of delayed scaling is lost",
		Symptom:    "the first loss after the restore is another, though weights, masters and moments are right",
		Cause:      "the checkpoint does not bring histories and scales: operands are quantised as at the run's beginning, by a scale of 1",
		Diagnose:   "restore: histories and scales, while every weight is equal; then the first cast",
		Cure:       "histories and scales in the checkpoint",
		Source:     "Megatron-Bridge #1730",
		Precisions: []string{"fp8"}, Only: "delayed scaling is fp8's", Layouts: []string{"dp=1", "dp=2,tp=2"},
	},
	Found: Found{Root: "*.history", also: []string{"*.scale", "quant.*"}, Class: "state", verdict: "restore"},
	config: func() train.Config {
		c := quantised("fp8")()
		c.Quant.Scaling = "delayed"
		return c
	},
	stop:   3,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"drop@layers.1.attn.*.history", "drop@layers.1.attn.*.scale"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
