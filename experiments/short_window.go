package experiments

import "firstbit/train"

// Each loss is divided by the microbatches that a step should have, before it is known how many this one has.
var shortWindow = &Cause{
	About: About{
		ID: "short-window", Part: "E", Title: "A window that the epoch's end cuts short is divided by the full number",
		Symptom:  "once an epoch the loss and the gradients of one step are too small by a whole factor; with epochs that fill their last step all is well",
		Cause:    "each microbatch's loss is divided by the configured number of them, of which the epoch has fewer left",
		Diagnose: "the gradient of the logits in that step: inputs equal, and a scalar, the factor of a token, differs; the configurations differ in epoch_end",
		Cure:     "the number of microbatches that the window has; or sums that are divided once, by the labels of the step",
		Source:   "ms-swift #10084", Layouts: []string{"dp=1", "dp=2", "tp=2", "cp=2", "pp=2", "ep=2", "dp=2,tp=2,pp=2,ep=2"},
	},
	Found: Found{Root: "logits.dx", Class: "state", also: []string{"*logits.dx", "*.moe.router.*"}},
	config: func() train.Config {
		c := divisible()
		c.Steps, c.Batch, c.Micro, c.Samples, c.EpochEnd = 8, 1, 4, 10, "partial"
		return c
	},
	vary:   [2]variation{{schedule: 1}, {schedule: 1, set: []string{"epoch_end=partial_by_micro"}}},
	broken: setting{source: true},
	cured:  setting{source: true, set: []string{"calculate_per_token_loss=true"}},
}
