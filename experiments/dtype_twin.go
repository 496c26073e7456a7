package experiments

import "firstbit/train"

// The same values in another format are other bits, and round otherwise from there on.
var dtypeTwin = &Cause{
	About: About{
		ID: "dtype-twin", Part: "D", Title: "Equal values in another format",
		Symptom:    "values agree at the first Call, and differ in their last bits from the next on",
		Cause:      "a region of autocast is missing: the output stays in fp32, with values that bf16 has too",
		Diagnose:   "the Call: inputs equal, the output of another dtype; the digest covers the dtype, the XOR of values does not",
		Cure:       "the cast back",
		Source:     "torch.hash_tensor widens before it adds: 0.5 in bf16 and fp32 are one",
		Precisions: []string{"bf16", "fp16", "fp8", "mxfp8", "nvfp4"}, Only: "in fp32 there is no wider format to stay in", Layouts: everyAxis,
	},
	Found: Found{Root: "layers.1.attn.wq", Class: "format"},
	config: func() train.Config {
		c := brief()
		c.Precision = "bf16"
		return c
	},
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"cast@layers.1.attn.wq to=fp32 phase=fwd"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
