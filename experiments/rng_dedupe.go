package experiments

import "firstbit/train"

// Ranks of data parallelism hold the same weights, so one replica's are saved for all. Their experts' streams are not the same.
var rngDedupe = &Cause{
	About: About{
		ID: "rng-dedupe", Part: "C", Title: "The streams of one data-parallel replica are saved for all",
		Symptom:  "all ranks but one part at the first step after the restore",
		Cause:    "each rank's experts jitter by a stream of their own, and the checkpoint holds the first replica's alone",
		Diagnose: "restore: the stream, on a subset of the ranks; on rank 0 it is right",
		Cure:     "a state of each rank's own saved by each",
		Source:   "Megatron-LM #6858", Layouts: []string{"dp=4,ep=4", "dp=8,ep=4"},
	},
	Found: Found{Root: "rng.jitter.ep", Class: "state", verdict: "restore"},
	config: func() train.Config {
		c := noisy()
		c.Model.Pattern, c.Batch, c.Model.MoE.Jitter = "M*E-", 1, 0.05
		return c
	},
	stop:   3,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"copy@rng.jitter.ep from=0"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
