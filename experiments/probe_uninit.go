package experiments

// Memory that was just allocated holds what lay there before, and no two runs find the same.
var probeUninit = &Cause{
	About: About{
		ID: "probe-uninit", Part: "D", Title: "The tracer hashes uninitialised memory",
		Symptom:   "the traces differ, and no metric or state of the runs does",
		Cause:     "the tracer records every operation, the allocation of an output too, whose bytes are what the memory held before",
		Diagnose:  "the record is flagged as uninitialised: an artifact of the tracer",
		Cure:      "no digest of what nothing has written",
		Source:    "Megatron-LM #7262",
		Reference: reportedArtifacts, Layouts: everyAxis,
	},
	Found:  Found{Root: "layers.1.attn.wq.empty", Class: "probe", verdict: "artifact", seen: 2, unmoved: true},
	config: brief,
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, faults: []string{"probe@layers.1.attn.wq as=uninit"}},
	cured:  setting{source: true, traced: true},
	halves: []half{{"not there but elsewhere", setting{source: true, traced: true, faults: []string{"probe@layers.1.attn.wk as=uninit"}}}},
}
