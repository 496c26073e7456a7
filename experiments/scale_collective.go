package experiments

// Below a size everything repeats. At two nodes the tuner finds a faster way, which adds in whatever order
// the packets come.
var scaleCollective = &Cause{
	About: About{
		ID: "scale-collective", Part: "A", Title: "From eight ranks on, the tuner picks a collective that adds by arrival",
		Symptom:   "every run on one node repeats itself bit for bit; on two nodes and more none does",
		Cause:     "the tuner compares latency and bandwidth; from two simulated nodes on the switches of the network win, and they add what comes first",
		Diagnose:  "the reduce-scatter of gradients: the inputs of all members are equal, outputs differ; not the Calls that receive it",
		Cure:      "a fixed order at every size",
		Source:    "NCCL's choice of algorithm by message size, ranks and topology",
		Reference: reportedAtScale, Layouts: []string{"dp=8", "dp=16"},
	},
	Found:  Found{Root: "grads.bucket.*", Class: "arrival", also: []string{"grad_norm.all"}},
	config: cluster,
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, plans: []string{"grads.bucket.? tuned=true", "grad_norm.all tuned=true"}},
	cured:  setting{source: true, plans: []string{"grads.bucket.? tuned=false", "grad_norm.all tuned=false"}},
	halves: []half{{"the gradients alone", setting{source: true, plans: []string{"grads.bucket.? tuned=false", "grad_norm.all tuned=true"}}}},
	quiet:  []string{"dp=2", "dp=4"},
}
