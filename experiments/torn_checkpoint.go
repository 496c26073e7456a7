package experiments

// A save that goes on beside training must save what was there when it began.
var tornCheckpoint = &Cause{
	About: About{
		ID: "torn-checkpoint", Part: "E", Title: "An asynchronous save aliases live tensors",
		Symptom:  "the checkpoint loads, and the run that continues from it is none that was ever under way",
		Cause:    "the writer reads tensors while the next step updates them: some of the file are of that step",
		Diagnose: "restore: the states of one layer are those of the step after",
		Cure:     "a copy taken before the next step",
		Source:   "nvidia-resiliency-ext #376, Lightning #21079", Layouts: everyAxis,
	},
	Found:  Found{Root: "layers.1.*", Class: "state", verdict: "restore"},
	config: continued,
	stop:   3, around: 1,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"copy@layers.1.* from-step=4"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
