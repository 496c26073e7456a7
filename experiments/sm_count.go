package experiments

// A fixed order over CTAs is fixed on one machine: how many there are follows from the machine.
var smCount = &Cause{
	About: About{
		ID: "sm-count", Part: "A", Title: "The fused loss groups rows by the number of multiprocessors",
		Symptom:  "the job repeats itself on every GPU model, and parts between two of them",
		Cause:    "the kernel has two CTAs for each multiprocessor; CTA b adds rows b, b + grid, and so on, so the grid decides which rows are added together",
		Diagnose: "the auxiliary loss: inputs equal, outputs different, the plans differ in the grid alone, and no order depends on arrival",
		Cure:     "a grouping that does not depend on the machine: a grid of its own, or the sum by sequence",
		Source:   "TransformerEngine's fused auxiliary loss: grid of 2 × multiprocessors", Layouts: everyAxis,
	},
	Found:  Found{Root: "*.moe.router.aux_loss", Class: "tuner", also: []string{"*.moe.router.aux_loss"}},
	config: brief,
	vary:   [2]variation{{schedule: 1, plans: []string{"*.aux_loss grid=6"}}, {schedule: 1, plans: []string{"*.aux_loss grid=10"}}},
	broken: setting{source: true},
	cured:  setting{source: true, plans: []string{"*.aux_loss grid=8"}},
	halves: []half{{"a fixed order over the CTAs", setting{source: true, plans: []string{"*.aux_loss ctas:pairwise"}}}},
}
