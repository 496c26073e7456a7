package experiments

// A buffer is free when what was sent from it has arrived, and not when it was sent.
var bucketReuse = &Cause{
	About: About{
		ID: "bucket-reuse", Part: "E", Title: "A reduce buffer is used again while its collective is under way",
		Symptom:  "with overlap no run repeats itself; without it all do",
		Cause:    "the next bucket is reduced into the buffer in which the one before still waits to be read",
		Diagnose: "the wait of the first bucket finds something else than its collective brought, within one run: memory, and the trace names who wrote there",
		Cure:     "a buffer for each collective that is under way",
		Source:   "DeepSpeed #7965", Layouts: []string{"dp=2", "dp=4", "dp=2,tp=2"},
	},
	Found:    Found{Root: "grads.bucket.*", Class: "memory", verdict: "memory", also: []string{"grads.bucket.*", "grad_norm.bucket.*", "optim.*", "loss_scale.unscale"}},
	config:   inFlight,
	vary:     [2]variation{{schedule: 1}, {schedule: 2}},
	broken:   setting{source: true, faults: []string{"alias@grads.bucket.0 with=grads.bucket.1"}},
	cured:    setting{source: true},
	harmless: []half{{"the same buffer, without overlap", setting{source: true, set: []string{"cluster.overlap=false"}, faults: []string{"alias@grads.bucket.0 with=grads.bucket.1"}}}},
}
