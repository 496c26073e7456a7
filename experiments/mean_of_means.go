package experiments

// A mean of means is the mean where all have equally many.
var meanOfMeans = &Cause{
	About: About{
		ID: "mean-of-means", Part: "E", Title: "The mean of microbatches is taken for the mean of tokens",
		Symptom:  "accumulating over more microbatches gives another loss and other gradients, by more than rounding",
		Cause:    "each microbatch divides by its own labels, of which it has more or fewer",
		Diagnose: "the loss of the first microbatch, or with context parallelism the labels of its parts: Calls that one run has alone; one configuration counts labels over the step, the other over the microbatch",
		Cure:     "one divisor for all tokens of the step",
		Source:   "transformers #34191: gradient accumulation", Layouts: []string{"dp=1", "tp=2", "cp=2", "pp=2", "ep=2", "dp=2,tp=2,pp=2,ep=2"},
	},
	Found:  Found{Root: "loss_mean*", Class: "control", verdict: "missing"},
	config: packed,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, set: []string{"calculate_per_token_loss=false"}}},
	broken: setting{source: true},
	cured:  setting{source: true, set: []string{"calculate_per_token_loss=true"}},
}
