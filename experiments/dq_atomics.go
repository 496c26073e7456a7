package experiments

import "firstbit/train"

const dqRacing = "*.attention.dx dq:splitk(4,arrival)/fp32"

// Each block of keys adds its share of dQ when it is done.
var dqAtomics = &Cause{
	About: About{
		ID: "dq-atomics", Part: "A", Title: "Atomic adds into dQ over key blocks",
		Symptom:  "forward passes agree, gradients of the query projection do not, from the first backward on",
		Cause:    "attention's backward runs over blocks of keys, and each block adds into dQ as it finishes",
		Diagnose: "the attention backward: inputs equal, dq different, dk and dv equal",
		Cure:     "a fixed order over the blocks",
		Source:   "flash-attention #384", Layouts: everyAxis,
	},
	Found:  Found{Root: "*.attention.dx", Class: "arrival"},
	config: train.Tiny,
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, plans: []string{dqRacing}},
	cured:  setting{source: true, plans: []string{dqRacing, "*.attention.dx dq:splitk(4,seq)/fp32"}},
}
