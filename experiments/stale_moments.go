package experiments

// Weights of one step and moments of another make an optimizer that no run ever had.
var staleMoments = &Cause{
	About: About{
		ID: "stale-moments", Part: "E", Title: "Later checkpoints carry the moments of an earlier one",
		Symptom:  "the loss of the first step after the restore is right; the updates are not",
		Cause:    "the moments were cached for the first checkpoint, and are written into every later one",
		Diagnose: "restore: first and second moments of all weights",
		Cure:     "the cache emptied before each save",
		Source:   "NeMo RL #4183", Layouts: everyAxis,
	},
	Found:  Found{Root: "*.m", Class: "state", verdict: "restore", also: []string{"*.v"}},
	config: continued,
	stop:   3, around: 1,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"copy@*.m from-step=2", "copy@*.v from-step=2"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
	halves: []half{{"the first moments alone", setting{source: false, faults: []string{"copy@*.v from-step=2"}}}},
}
