package experiments

import "firstbit/train"

// A weight that every rank has whole, whose tokens are cut over ranks, has its gradient in parts.
var routerGradient = &Cause{
	About: About{
		ID: "router-gradient", Part: "E", Title: "The router's gradient misses its all-reduce",
		Symptom:  "copies of the router and of norms drift apart over tensor-parallel ranks, and no metric of the first step shows it",
		Cause:    "gradients of weights that all ranks have, from tokens of which each has a part, are not added up",
		Diagnose: "the all-reduce of the sequence-parallel gradients does not run: what each rank goes on with is its own; one trace shows that the copies differ",
		Cure:     "the all-reduce for every weight that is used on a part of the tokens",
		Source:   "torchtitan #2387, #4054", Layouts: []string{"tp=2", "dp=2,tp=2", "tp=2,pp=2"},
	},
	Found: Found{Root: "grads.bucket.*.sequence", Class: "control", also: []string{"grads.bucket.*"}},
	config: func() train.Config {
		c := train.Tiny()
		c.Steps = 8
		return c
	},
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"drop@grads.bucket.*.sequence"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
