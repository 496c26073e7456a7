package experiments

// A copy that nobody waits for is there in parts.
var probeCopy = &Cause{
	About: About{
		ID: "probe-copy", Part: "D", Title: "A copy to the host is hashed while it is under way",
		Symptom:   "the traces differ, and no metric or state of the runs does",
		Cause:     "the tracer starts a nonblocking copy of an output to the host and hashes the host's memory at once",
		Diagnose:  "the record is flagged as nonblocking: an artifact of the tracer",
		Cure:      "a copy that is waited for",
		Source:    "Megatron-LM #7262",
		Reference: reportedArtifacts, Layouts: everyAxis,
	},
	Found:  Found{Root: "layers.3.mlp.w1.copy", Class: "probe", verdict: "artifact", seen: 2, unmoved: true},
	config: brief,
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, faults: []string{"probe@layers.3.mlp.w1 as=copy"}},
	cured:  setting{source: true, traced: true},
}
