package experiments

import "firstbit/train"

// Hardware: one bit, once. Running the step again tells it from software, which would repeat it.
var bitFlip = &Cause{
	About: About{
		ID: "bit-flip", Part: "B", Title: "One flipped bit in one element",
		Symptom:  "one run parts from its twin at one step; nothing the software chose differs",
		Cause:    "a transient error flips bit 4 (bit 0 is the lowest) of one element of one output",
		Diagnose: "the flipped Call: inputs, plan and library equal, one element different, on one rank only",
		Cure:     "none in software: replay the step; what does not repeat was the machine",
		Source:   "rerun attribution, as Megatron Core's rerun state machine does it", Layouts: everyAxis,
	},
	Found: Found{Root: "layers.1.attn.wq", Class: "hardware", flips: true},
	// In fp32 what the bit moves stays below every margin of a router for these steps.
	config: func() train.Config {
		c := train.Tiny()
		c.Precision = "bf16"
		return c
	},
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"flip@layers.1.attn.wq step=3 elem=1001 bit=4"}}},
	broken: setting{source: true},
	// The replay: both runs again, without the machine's error.
	cured: setting{source: false},
}
