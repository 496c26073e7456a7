package experiments

import "firstbit/train"

// Until it is waited for, a collective may have brought any part of its result.
var probeAsync = &Cause{
	About: About{
		ID: "probe-async", Part: "D", Title: "A collective's destination is hashed before its wait",
		Symptom:   "the traces differ in collectives, and no metric or state of the runs does",
		Cause:     "the tracer hashes the destination where the collective starts; which parts of the result are there by then is a matter of timing",
		Diagnose:  "the record is flagged as pending: an artifact of the tracer",
		Cure:      "the digest taken at the wait",
		Source:    "Megatron-LM #7262",
		Reference: reportedArtifacts, Layouts: []string{"dp=2", "dp=4", "dp=2,tp=2", "dp=2,pp=2", "dp=2,ep=2"},
	},
	Found: Found{Root: "grads.bucket.*", Class: "probe", verdict: "artifact", seen: 2, unmoved: true},
	config: func() train.Config {
		c := train.Tiny()
		c.Steps, c.Cluster.Overlap = 8, true
		return c
	},
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, faults: []string{"probe@grads.bucket.* as=pending"}},
	cured:  setting{source: true, traced: true},
}
