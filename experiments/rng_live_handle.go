package experiments

import "firstbit/train"

// A recomputation must draw what the forward drew. One that holds on to the stream instead of a copy of
// its state draws whatever comes next.
var rngLiveHandle = &Cause{
	About: About{
		ID: "rng-live-handle", Part: "C", Title: "Recomputation draws from the live random stream",
		Symptom:  "the loss of the first step agrees, its gradients do not; within one run, the recomputed activations are not those of the forward",
		Cause:    "what was saved before the forward is a handle on the stream, not a copy of its state, and the stream has moved on",
		Diagnose: "the draw of a dropout mask in phase rec: the saved state is the same, the mask is not; the recompute record's two sides differ",
		Cure:     "the state copied when it is saved",
		Source:   "Megatron-LM #5841", Layouts: everyAxis,
	},
	Found: Found{Root: "*.dropout.mask", Class: "state"},
	config: func() train.Config {
		c := train.Tiny()
		c.Model.Dropout, c.Model.Recompute = 0.1, true
		return c
	},
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"live@*.dropout.mask"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
