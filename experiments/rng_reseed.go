package experiments

// Seeding is the first thing a program does, and a restore undoes it, unless it comes first.
var rngReseed = &Cause{
	About: About{
		ID: "rng-reseed", Part: "C", Title: "Seeding again after the restore",
		Symptom:  "a run that continues repeats the masks of its first steps",
		Cause:    "the program seeds its streams after it has restored them",
		Diagnose: "the seeding itself: it found the restored stream and left that of the beginning",
		Cure:     "the seeds first, then the restore",
		Source:   "ms-swift #9935", Layouts: everyAxis,
	},
	Found:  Found{Root: "seed.rng.dropout.tp", Class: "state", verdict: "restore"},
	config: noisy,
	stop:   3,
	vary: [2]variation{{schedule: 1},
		{schedule: 1, faults: []string{"seed@rng.* when=after"}}},
	broken: setting{source: true},
	cured:  setting{faults: []string{"seed@rng.* when=before"}},
}
