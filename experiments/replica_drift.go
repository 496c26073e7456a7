package experiments

// Replicas that each update for themselves are replicas as long as all do the same.
var replicaDrift = &Cause{
	About: About{
		ID: "replica-drift", Part: "E", Title: "A replica of the optimizer drifts",
		Symptom:  "one data-parallel rank's loss is a little off, and nothing brings it back; a checkpoint has the first rank's weights",
		Cause:    "one bit flips in one rank's copy of a weight, and no collective compares or restores it",
		Diagnose: "the update on that rank alone: inputs equal, outputs different; one trace shows that the replicas differ",
		Cure:     "a distributed optimizer, which gathers weights in every step, or a check of digests over replicas",
		Source:   "DistributedDataParallel broadcasts buffers, and weights only at its beginning", Layouts: []string{"dp=2", "dp=4"},
	},
	Found:  Found{Root: "optim.layers.1.attn.wq", Class: "hardware"},
	config: replicated,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"flip@optim.layers.1.attn.wq rank=1 step=2 phase=opt elem=5 bit=20"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
