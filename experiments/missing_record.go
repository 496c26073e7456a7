package experiments

// Where two runs do not make the same Calls, there is nothing to compare, and that is the finding.
var missingRecord = &Cause{
	About: About{
		ID: "missing-record", Part: "D", Title: "One run makes a Call that the other does not",
		Symptom:  "the router's gradients part, and no Call has equal inputs and different outputs",
		Cause:    "a flag that one launch script sets adds a term to the loss, and with it Calls that the other run does not have",
		Diagnose: "control flow: the first record that one run has alone, with the last that both have",
		Cure:     "the same configuration in both",
		Source:   "launch scripts that drift: run.json shows the field", Layouts: everyAxis,
	},
	Found:  Found{Root: "*.moe.router.*", Class: "control", verdict: "missing"},
	config: brief,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, set: []string{"model.moe.bias_rate=0"}}},
	broken: setting{source: true},
	cured:  setting{source: true, set: []string{"model.moe.bias_rate=0"}},
}
