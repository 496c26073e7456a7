package experiments

// A switch that is thrown after a kernel was set up says nothing, and the kernel runs as before.
var lateFlag = &Cause{
	About: About{
		ID: "late-flag", Part: "B", Title: "Deterministic mode set after a kernel was set up",
		Symptom:  "the deterministic flag is set, nothing complains, and the runs differ",
		Cause:    "one layer's kernels were warmed up, and captured their plans, before the flag was set; all others obey it",
		Diagnose: "the first of those kernels: inputs equal, outputs different, its plan still depends on arrival though the recipe forbids it",
		Cure:     "the flag set first, and a check that fails if it is late: train --deterministic refuses such a run",
		Source:   "AReaL #1544", Layouts: everyAxis,
	},
	Found:  Found{Root: "layers.2.moe.*", Class: "arrival", also: []string{"layers.2.moe.*"}},
	config: brief,
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, faults: []string{"capture@layers.2.moe.*"}},
	cured:  setting{source: true},
	halves: []half{{"set again by hand", setting{source: true, plans: []string{"layers.2.moe.combine slots:seq"}, faults: []string{"capture@layers.2.moe.*"}}}},
}
