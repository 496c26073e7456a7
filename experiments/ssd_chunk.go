package experiments

import "firstbit/train"

// The chunked scan is the same recurrence for every chunk size, added by another tree.
var ssdChunk = &Cause{
	About: About{
		ID: "ssd-chunk", Part: "B", Title: "The chunk size of the scan chosen by a tuner",
		Symptom:  "the first forward differs already, in the Mamba layers",
		Cause:    "the tuner picks another chunk size in the other run; the state is a chain of chunks, so its sum has another tree",
		Diagnose: "the scan: inputs equal, outputs different, the plans differ in the chunk",
		Cure:     "the chunk size pinned",
		Source:   "autotuned block sizes of public state-space kernels; SGLang #13309, where a prefix is cut off the chunk boundary", Layouts: everyAxis,
	},
	Found:  Found{Root: "layers.0.ssm.scan", Class: "tuner", also: []string{"*.ssm.scan", "*.ssm.scan.dx"}},
	config: train.Tiny,
	vary:   [2]variation{{schedule: 1, plans: []string{"*.ssm.scan* chunk=8"}}, {schedule: 1, plans: []string{"*.ssm.scan* chunk=32"}}},
	broken: setting{source: true},
	cured:  setting{source: true, plans: []string{"*.ssm.scan* chunk=16"}},
	halves: []half{
		{"pinned in the backward alone", setting{source: true, plans: []string{"*.ssm.scan.dx chunk=16"}}},
		{"pinned in the forward alone", setting{source: true, plans: []string{"*.ssm.scan chunk=16"}}},
	},
}
