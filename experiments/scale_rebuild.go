package experiments

import "firstbit/train"

// quantised is a configuration that continues, with operands of few bits.
func quantised(precision string) func() train.Config {
	return func() train.Config {
		c := continued()
		c.Precision = precision
		return c
	}
}

// A checkpoint holds the full-precision source alone, and a restore makes what follows from it again. It must read what training reads.
var scaleRebuild = &Cause{
	About: About{
		ID: "scale-rebuild", Part: "C", Title: "Low-precision scales are rebuilt another way than in training",
		Symptom:    "the first loss after the restore is near and not the same, though weights, masters and moments are right; after the next update the copies are right again, of masters that are not",
		Cause:      "training quantises the masters, the restore the weights rounded to bf16: some blocks have another amax and so another scale, and 3 % of values are others",
		Diagnose:   "restore: the copies that were made right after the load, of equal masters",
		Cure:       "the full-precision source, by the path that training takes",
		Source:     "TransformerEngine's FP8 primary weights, which are cast from the masters",
		Reference:  reportedScales,
		Precisions: []string{"mxfp8"}, Only: "it is about copies in blocks of 32 that are made of masters", Layouts: []string{"dp=1", "dp=2", "tp=2"},
	},
	Found:  Found{Root: "quant.*", Class: "state", verdict: "restore"},
	config: quantised("mxfp8"),
	stop:   3,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"rebuild@quant.layers.1.attn.* step=3 source=bf16"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
