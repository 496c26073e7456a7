package experiments

// A step that only makes the optimizer allocate its moments is a step to the optimizer.
var syntheticStep = &Cause{
	About: About{
		ID: "synthetic-step", Part: "E", Title: "A synthetic step advances Adam's counter",
		Symptom:  "the first update after the restore is a little off; moments and weights were restored to the bit",
		Cause:    "to have moments to load into, the program takes a step with zero gradients, whose count stays",
		Diagnose: "restore: the optimizer's step is one more; then the scalar step of every update",
		Cure:     "the count loaded after the synthetic step, or the moments allocated without one",
		Source:   "Megatron-LM #5976", Layouts: everyAxis,
	},
	Found:  Found{Root: "optim.step", Class: "state", verdict: "restore"},
	config: continued,
	stop:   3,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"set@optim.step value=4"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
