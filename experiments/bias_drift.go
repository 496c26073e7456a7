package experiments

// The bias that balances experts is no weight: no gradient reaches it, and no optimizer saves it.
var biasDrift = &Cause{
	About: About{
		ID: "bias-drift", Part: "C", Title: "The experts' bias is not restored",
		Symptom:  "routes part after the restore, and experts that were in balance have to find it again",
		Cause:    "the routers' bias is state outside the optimizer, and the checkpoint does not bring it",
		Diagnose: "restore: the bias of every router; the logits of the first step are equal, the choices are not",
		Cure:     "bias and counts in the checkpoint",
		Source:   "bias and counts are buffers of the router, not parameters, in Megatron Core too", Layouts: everyAxis,
	},
	Found:  Found{Root: "layers.2.moe.router.bias", also: []string{"*.moe.router.bias"}, Class: "state", verdict: "restore"},
	config: continued,
	stop:   3,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"drop@*.moe.router.bias"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
