package experiments

// Quantising what a copy stands for gives the same values and, for some blocks, another scale with other codes.
var mxDoubleQuant = &Cause{
	About: About{
		ID: "mx-double-quant", Part: "C", Title: "MXFP8 weights are quantised twice on the way through a checkpoint",
		Symptom:    "none in losses, metrics or any product; the bytes of copies differ, so a check of the model's checksum fails",
		Cause:      "the copies are made of what copies stood for: a block whose largest code is at most half the largest there is loses one step of its scale, and its codes double",
		Diagnose:   "restore: scales and codes of the same blocks, 3 to 5 of a hundred, of equal masters",
		Cure:       "the copies made from the masters",
		Source:     "Megatron-LM #6666",
		Precisions: []string{"mxfp8"}, Only: "the rule by which a scale loses a step is mxfp8's", Layouts: []string{"dp=1", "dp=2", "tp=2"},
	},
	Found:  Found{Root: "quant.*", Class: "state", verdict: "restore", silent: true},
	config: quantised("mxfp8"),
	stop:   3,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"rebuild@quant.layers.1.attn.* step=3 source=dequantised"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
