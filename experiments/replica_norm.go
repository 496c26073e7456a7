package experiments

const racingNorm = "grad_norm.bucket.* elements:arrival/fp32 dp=1"

// Replicas clip by a norm of their own, and nothing brings their weights together again.
var replicaNorm = &Cause{
	About: About{
		ID: "replica-norm", Part: "E", Title: "One replica's norm is added in arrival order, and its weights drift",
		Symptom:  "gradients agree on all ranks; a run differs from its repetition, and so do its data-parallel ranks, more with every step",
		Cause:    "every replica adds up the squares of the same gradients and clips by the root; on one of them the kernel adds in arrival order",
		Diagnose: "one trace alone shows it: the sum of squares read the same on all replicas, and wrote other bits on one",
		Cure:     "a fixed tree on every replica; a norm that one of them computes for all",
		Source:   "DistributedDataParallel: replicas clip and step by themselves, and are never compared",
		Layouts:  []string{"dp=2", "dp=4", "dp=2,pp=2"},
	},
	Found:  Found{Root: "grad_norm.bucket.*", Class: "arrival"},
	config: replicated,
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, plans: []string{racingNorm}},
	cured:  setting{source: true, plans: []string{racingNorm, "grad_norm.bucket.* elements:lanes(8)/fp32"}},
	quiet:  []string{"dp=1"},
}
