package experiments

import "firstbit/train"

// Every microbatch has the same gradients in both runs. They meet in another order.
var microbatchOrder = &Cause{
	About: About{
		ID: "microbatch-order", Part: "A", Title: "Gradients of microbatches accumulated as they complete",
		Symptom:  "every microbatch's loss and gradients are the same, those of the step are not",
		Cause:    "with overlap the backward passes complete in no fixed order, and each adds into the gradient when it does",
		Diagnose: "the order of accumulation: nothing was computed yet, and the lists differ",
		Cure:     "microbatches accumulated in their own order",
		Source:   "gradient accumulation under pipeline overlap", Layouts: []string{"dp=1", "tp=2", "cp=2", "ep=2"},
	},
	Found: Found{Root: "grads.accumulate", Class: "arrival"},
	config: func() train.Config {
		c := train.Tiny()
		c.Batch, c.Micro, c.Steps = 1, 4, 20 // two would add to the same sum either way round
		return c
	},
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, plans: []string{"grads.accumulate micro:arrival"}},
	cured:  setting{source: true, plans: []string{"grads.accumulate micro:arrival", "grads.accumulate micro:seq"}},
}
