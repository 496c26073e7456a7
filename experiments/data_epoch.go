package experiments

// Each epoch has an order of its own, and the position counts over all of them.
var dataEpoch = &Cause{
	About: About{
		ID: "data-epoch", Part: "C", Title: "The sampler goes on in the wrong epoch",
		Symptom:  "a run that continues in the middle of an epoch reads samples in another order, and some of them for the second time",
		Cause:    "the restore counts the epoch that was under way as complete and goes on at the same place of the next",
		Diagnose: "restore: the samples consumed, too many by the 8191 samples of an epoch; then the batches",
		Cure:     "one position over all epochs in the checkpoint",
		Source:   "Lightning #21938", Layouts: everyAxis,
	},
	Found:  Found{Root: "data.consumed", Class: "state", verdict: "restore"},
	config: continued,
	stop:   3,
	// Four samples a step, and an epoch.
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"set@data.consumed value=8203"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
