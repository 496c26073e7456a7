package experiments

// Who waits for everybody before a sum imposes the order that was to be watched.
var probeSync = &Cause{
	About: About{
		ID: "probe-sync", Part: "D", Title: "A tracer that synchronises hides the race",
		Symptom:  "runs differ until somebody looks: under the tracer they are the same",
		Cause:    "the tracer waits for all ranks before each collective, so that their parts arrive in order",
		Diagnose: "traced without waiting, the reduce-scatter parts: inputs of all members equal, outputs different, the plan depends on arrival",
		Cure:     "a tracer that waits for nothing; the order fixed",
		Source:   "NCCL_BLOCKING_WAIT and CUDA_LAUNCH_BLOCKING serialise what they look at", Layouts: []string{"dp=4", "dp=8", "dp=4,tp=2", "dp=4,pp=2"},
	},
	Found:    Found{Root: "grads.bucket.*", Class: "arrival"},
	config:   divisible,
	vary:     [2]variation{{schedule: 1}, {schedule: 2}},
	broken:   setting{source: true, plans: []string{"grads.bucket.? ranks:arrival"}},
	cured:    setting{source: true, plans: []string{"grads.bucket.? ranks:seq"}},
	harmless: []half{{"under a tracer that synchronises", setting{source: true, traced: true, plans: []string{"grads.bucket.? ranks:arrival"}, faults: []string{"probe@grads.bucket.* as=sync"}}}},
	halves:   []half{{"traced without waiting", setting{source: true, traced: true, plans: []string{"grads.bucket.? ranks:arrival"}}}},
}
