package experiments

import (
	"firstbit/optim"
	"firstbit/train"
)

// A step is taken or skipped by all ranks together, or their weights are of two models.
var foundInf = &Cause{
	About: About{
		ID: "found-inf", Part: "E", Title: "An overflow is not joined over ranks",
		Symptom:    "one rank skips a step that the others take; from then on its shard of the weights is of another step",
		Cause:      "the flag that a gradient overflowed is a rank's own: its part of the maximum over ranks is missing",
		Diagnose:   "the maximum over ranks: inputs of all members equal, outputs different",
		Cure:       "the maximum over all ranks before anyone decides",
		Source:     "Megatron's and PyTorch's optimizers join found_inf over the model-parallel ranks",
		Precisions: []string{"fp16"}, Only: "no other scales the loss", Layouts: []string{"dp=2", "dp=4", "dp=2,tp=2", "dp=2,pp=2"},
	},
	Found: Found{Root: "loss_scale.found_inf", Class: "hardware", also: []string{"loss_scale.found_inf"}},
	config: func() train.Config {
		c := scaled()
		c.Optim.LossScale = optim.DefaultLossScale // with which nothing else overflows
		return c
	},
	vary:   [2]variation{{schedule: 1, faults: []string{overflowed}}, {schedule: 1, faults: []string{overflowed, "drop@loss_scale.found_inf step=2 rank=1"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
