package experiments

// A gradient that is sent during the backward must stay as it is until it was read.
var bucketRewrite = &Cause{
	About: About{
		ID: "bucket-rewrite", Part: "E", Title: "A bucket is rewritten before its reduction reads it",
		Symptom:  "gradients of one layer are those of another, by whole values",
		Cause:    "two gradients lie in one place of the bucket, and the second is written before the first was sent",
		Diagnose: "the reduce-scatter reads another gradient than was written: memory, and the trace names who wrote there",
		Cure:     "each gradient in a place of its own, and the copy waited for",
		Source:   "DeepSpeed #5523", Layouts: []string{"dp=2", "dp=4", "dp=2,tp=2"},
	},
	Found:  Found{Root: "grads.bucket.*", Class: "memory", verdict: "memory", also: []string{"grads.bucket.*"}},
	config: inFlight,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"alias@layers.3.mlp.w2.grad with=layers.3.mlp.w1.grad"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
