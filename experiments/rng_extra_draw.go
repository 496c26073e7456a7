package experiments

// A draw that comes after the restore moves a stream that training goes on to use.
var rngExtraDraw = &Cause{
	About: About{
		ID: "rng-extra-draw", Part: "C", Title: "Building the data iterator draws from a shared stream",
		Symptom:  "everything that was saved is restored, and the first step after it differs",
		Cause:    "the iterator over the data is built after the restore, and draws once from the stream of dropout",
		Diagnose: "the first record that differs is that draw: it found the restored stream where it should have found another",
		Cure:     "a stream of the iterator's own, or the restore last",
		Source:   "Megatron-Bridge #5257", Layouts: everyAxis,
	},
	Found:  Found{Root: "iterator.rng.dropout.tp", Class: "state", verdict: "restore"},
	config: noisy,
	stop:   3,
	vary: [2]variation{{schedule: 1},
		{schedule: 1, faults: []string{"draw@rng.dropout.tp when=after"}}},
	broken: setting{source: true},
	cured:  setting{faults: []string{"draw@rng.dropout.tp when=before"}},
}
