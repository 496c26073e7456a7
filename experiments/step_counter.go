package experiments

// Adam divides its moments by what they would be if all gradients were one, which depends on how many there were.
var stepCounter = &Cause{
	About: About{
		ID: "step-counter", Part: "C", Title: "The optimizer's step is not restored",
		Symptom:  "the loss of the first step after the restore is right, its update is too large",
		Cause:    "the optimizer counts its steps from the beginning and corrects moments that are no longer young",
		Diagnose: "restore: the optimizer's step; then the scalar step of every update",
		Cure:     "the step in the checkpoint",
		Source:   "Megatron-Bridge #3832", Layouts: everyAxis,
	},
	Found:  Found{Root: "optim.step", Class: "state", verdict: "restore"},
	config: continued,
	stop:   3,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"drop@optim.step"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
