package experiments

// A stream that nobody saved begins again.
var rngOmission = &Cause{
	About: About{
		ID: "rng-omission", Part: "C", Title: "One random stream is not restored",
		Symptom:   "a run that continues from a checkpoint parts at once from one that was never stopped, though weights and moments are right",
		Cause:     "the checkpoint does not bring the stream of dropout, which goes on from where the program seeded it",
		Diagnose:  "the first record that differs is what was restored: that stream, while every weight and moment is equal",
		Cure:      "every stream in the checkpoint",
		Source:    "Megatron Core's checkpoints hold five kinds of random state",
		Reference: reportedStreams, Layouts: everyAxis,
	},
	Found:  Found{Root: "rng.dropout.tp", Class: "state", verdict: "restore"},
	config: noisy,
	stop:   3,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"drop@rng.dropout.tp"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
