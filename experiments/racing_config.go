package experiments

// A configuration that races is fast.
var racingConfig = &Cause{
	About: About{
		ID: "racing-config", Part: "E", Title: "The tuner picks a configuration that races within the kernel",
		Symptom:  "one of two jobs does not repeat itself, on the same machine, with the same program",
		Cause:    "among the configurations that the tuner times is one whose blocks add into each other without a barrier",
		Diagnose: "the scan: inputs equal, outputs different, the plans differ, and that of run B depends on arrival: it does not repeat itself",
		Cure:     "the configuration taken out of what is tuned",
		Source:   "flash-linear-attention #945, #1228", Layouts: everyAxis,
	},
	Found:  Found{Root: "layers.0.ssm.scan", Class: "tuner"},
	config: brief,
	vary:   [2]variation{{schedule: 1, plans: []string{"*.ssm.scan chunk=16"}}, {schedule: 2, plans: []string{"*.ssm.scan chunk=8; steps:arrival"}}},
	broken: setting{source: true},
	cured:  setting{source: true, plans: []string{"*.ssm.scan chunk=16; steps:seq"}},
	halves: []half{{"the same chunk alone", setting{source: true, plans: []string{"*.ssm.scan chunk=8"}}}},
}
