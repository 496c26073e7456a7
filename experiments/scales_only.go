package experiments

import "firstbit/train"

// What a block stands for is codes and a scale. A tool that compares codes alone sees nothing here.
var scalesOnly = &Cause{
	About: About{
		ID: "scales-only", Part: "D", Title: "Equal packed values, different scales",
		Symptom:    "two runs part, and a comparison of packed values finds them equal where they do",
		Cause:      "one block of one operand has another scale: the lowest bit of its exponent",
		Diagnose:   "the quantiser: inputs and packed values equal, one scale twice the other",
		Cure:       "a fingerprint of the scales beside that of the codes; the error itself is the machine's, so a replay does not repeat it",
		Source:     "trace contract: packed and scales are separate signatures",
		Reference:  reportedFingerprints,
		Precisions: []string{"mxfp8", "nvfp4"}, Only: "others have no blocks with scales of their own", Layouts: everyAxis,
	},
	Found: Found{Root: "layers.1.attn.wq.x.quant", Class: "hardware"},
	config: func() train.Config {
		c := train.Tiny()
		c.Precision = "mxfp8"
		return c
	},
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"flip@layers.1.attn.wq.x.quant step=3 out=scales elem=5 bit=0"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
