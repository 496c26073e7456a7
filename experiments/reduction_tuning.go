package experiments

// What is tuned anew in every process is another choice in every process.
var reductionTuning = &Cause{
	About: About{
		ID: "reduction-tuning", Part: "E", Title: "A reduction's tuning is not kept",
		Symptom:  "each process repeats itself; the next one has another loss in its last bits",
		Cause:    "the cache of tuned kernels has products and not reductions: the loss is added by whichever was faster this time",
		Diagnose: "the sum of the losses: inputs equal, outputs different, plans differ",
		Cure:     "reductions in the cache too, or not tuned",
		Source:   "XLA #37902", Layouts: everyAxis,
	},
	Found:  Found{Root: "*loss_sum", Class: "tuner", also: []string{"*loss_sum"}},
	config: brief,
	vary:   [2]variation{{schedule: 1, plans: []string{"*loss_sum tokens:lanes(8)"}}, {schedule: 1, plans: []string{"*loss_sum tokens:blocked(16)"}}},
	broken: setting{source: true},
	cured:  setting{source: true, plans: []string{"*loss_sum tokens:seq"}},
}
