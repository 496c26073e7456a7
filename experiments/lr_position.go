package experiments

// The schedule of the learning rate has a position of its own, which a resume must find as it was.
var ratePosition = &Cause{
	About: About{
		ID: "lr-position", Part: "E", Title: "The position of the learning rate is advanced twice on a resume",
		Symptom:  "the loss of the first step after the restore is right; its update is by the rate of a later step",
		Cause:    "the restore of the schedule steps it once to set the rate, and it had been stepped already",
		Diagnose: "restore: the position; then the scalar lr of every update",
		Cure:     "the position set, not stepped",
		Source:   "slime #1546", Layouts: everyAxis,
	},
	Found:  Found{Root: "lr.position", Class: "state", verdict: "restore"},
	config: continued,
	stop:   3,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"set@lr.position value=6"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
