package experiments

// A loss per token is a sum of losses over a sum of labels, both over all ranks.
var normaliserLocal = &Cause{
	About: About{
		ID: "normaliser-local", Part: "E", Title: "The number of labels is not added up over ranks",
		Symptom:  "with packed documents the loss depends on how samples fall on ranks; with full sequences all is well",
		Cause:    "each rank divides by its own labels",
		Diagnose: "the count of labels: the all-reduce does not run, and what is divided by it follows",
		Cure:     "labels counted over all ranks and microbatches of the step",
		Source:   "losses per token in Megatron, torchtitan and transformers #34191", Layouts: []string{"dp=2", "dp=4", "dp=2,tp=2"},
	},
	Found:  Found{Root: "normaliser.labels.data", Class: "control", also: []string{"normaliser.labels.*"}},
	config: packed,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"drop@normaliser.labels.data"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
