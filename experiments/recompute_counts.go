package experiments

import "firstbit/train"

// What a forward counts it counts again when it is run again.
var recomputeCounts = &Cause{
	About: About{
		ID: "recompute-counts", Part: "E", Title: "A recomputation counts the load of the experts twice",
		Symptom:  "the loads that are reported are twice what they are; the bias moves by the sign of a difference, so no loss shows it",
		Cause:    "the count of tokens is a side effect of the forward, which the recomputation runs again",
		Diagnose: "the counts: inputs equal, outputs different, its kernel ran twice in one run",
		Cure:     "the count left out of what is recomputed",
		Source:   "Automodel #3247", Layouts: everyAxis,
	},
	Found: Found{Root: "*.moe.router.tokens", Class: "state", also: []string{"*.moe.router.tokens"}, seen: 1, unmoved: true},
	config: func() train.Config {
		c := train.Tiny()
		c.Steps, c.Model.Recompute = 20, true
		return c
	},
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"repeat@*.moe.router.tokens"}}},
	broken: setting{source: true},
	cured:  setting{source: false, traced: true},
}
