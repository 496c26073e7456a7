package experiments

const inSwitch = "ranks:perm(1)"

// The order in which a switch adds is its own, and what it has been asked before is part of it.
var switchHistory = &Cause{
	About: About{
		ID: "switch-history", Part: "A", Title: "An in-switch reduction remembers other communicators",
		Symptom:  "the same job on the same nodes parts from itself when a communicator more was made before it",
		Cause:    "the network adds in its switches, by tables that all communicators share; how many there are decides the order",
		Diagnose: "the reduce-scatter of gradients: the inputs of all members are equal, outputs differ; the plans agree but for the history",
		Cure:     "the in-switch algorithm off: an order by logical rank, whatever the history",
		Source:   "NCCL #2360", Layouts: []string{"dp=8"},
	},
	Found:  Found{Root: "grads.bucket.*", Class: "topology", also: []string{"grad_norm.all"}},
	config: cluster,
	vary: [2]variation{{schedule: 1, plans: []string{"grads.bucket.? communicators=2", "grad_norm.all communicators=2"}},
		{schedule: 1, plans: []string{"grads.bucket.? communicators=3", "grad_norm.all communicators=3"}}},
	broken:   setting{source: true, plans: []string{"grads.bucket.? " + inSwitch, "grad_norm.all " + inSwitch}},
	cured:    setting{source: true, plans: []string{"grads.bucket.? ranks:seq", "grad_norm.all ranks:seq"}},
	harmless: []half{{"a switch that adds in fp64 and rounds once", setting{source: true, plans: []string{"grads.bucket.? " + inSwitch + "/fp64", "grad_norm.all " + inSwitch + "/fp64"}}}},
	halves:   []half{{"off for the gradients alone", setting{source: true, plans: []string{"grads.bucket.? ranks:seq", "grad_norm.all " + inSwitch}}}},
}
