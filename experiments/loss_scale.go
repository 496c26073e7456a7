package experiments

// The scale of the loss has found its place over many steps, and gradients of fp16 live by it.
var lossScale = &Cause{
	About: About{
		ID: "loss-scale", Part: "E", Title: "The scale of the loss is not restored",
		Symptom:    "after the restore steps are skipped that a run that never stopped takes",
		Cause:      "the scale, its growth and its hysteresis begin anew, far above what the gradients bear",
		Diagnose:   "restore: the scale; then the gradient of the loss, with which the backward begins",
		Cure:       "scale and counters in the checkpoint",
		Source:     "GradScaler.state_dict is a state of its own, which a checkpoint must ask for",
		Precisions: []string{"fp16"}, Only: "no other scales the loss", Layouts: everyAxis,
	},
	Found:  Found{Root: "loss_scale.*", Class: "state", verdict: "restore", also: []string{"loss_scale.*"}},
	config: scaled,
	stop:   3,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"drop@loss_scale.*"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
