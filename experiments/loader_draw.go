package experiments

// Ranks that must draw alike must draw equally often.
var loaderDraw = &Cause{
	About: About{
		ID: "loader-draw", Part: "E", Title: "The data loader draws from a shared stream on one tensor-parallel rank",
		Symptom:  "dropout masks of tensor-parallel ranks part; the loss is a little worse, and nothing fails",
		Cause:    "the loader runs on the first rank of a tensor-parallel group, and shuffles by the stream that dropout uses",
		Diagnose: "one rank has a draw that no healthy run has, and what differs first reads the stream as it left it",
		Cure:     "a stream of the loader's own",
		Source:   "Megatron-DeepSpeed #276", Layouts: []string{"tp=2", "dp=2,tp=2", "tp=2,pp=2"},
	},
	Found:  Found{Root: "iterator.rng.dropout.tp", Class: "state"},
	config: noisy,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"draw@rng.dropout.tp tp=0"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
