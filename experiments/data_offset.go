package experiments

// What was read is read again.
var dataOffset = &Cause{
	About: About{
		ID: "data-offset", Part: "C", Title: "The sampler begins again at its first sample",
		Symptom:  "the loss after the restore is lower than it should be: the samples are known",
		Cause:    "the position in the data is not restored",
		Diagnose: "restore: the samples consumed, and every batch after it; weights, moments and streams are equal",
		Cure:     "the position in the checkpoint",
		Source:   "Megatron-Bridge #3503", Layouts: everyAxis,
	},
	Found:  Found{Root: "data.consumed", Class: "state", verdict: "restore"},
	config: continued,
	stop:   3,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"drop@data.consumed"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
