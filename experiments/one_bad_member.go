package experiments

// The first collective in which all ranks differ is not to blame: one member brought other bits.
var oneBadMember = &Cause{
	About: About{
		ID: "one-bad-member", Part: "D", Title: "A collective spreads what one member brought",
		Symptom:  "all eight ranks part at the same reduce-scatter, whose order is fixed",
		Cause:    "rank 5's weight gradient has one flipped bit; the collective carries it to every rank",
		Diagnose: "the collective's inputs are equal on seven members and not on one: downstream of that rank, whose own first mismatch is the root",
		Cure:     "none in software: replay the step; what does not repeat was the machine",
		Source:   "a single-rank rule once named a reduce-scatter at 256 GPUs, of which 16 ranks had other inputs",
		Layouts:  []string{"dp=8"},
	},
	Found:  Found{Root: "layers.1.attn.wq.dw", Class: "hardware"},
	config: cluster,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"flip@layers.1.attn.wq.dw rank=5 step=2 phase=bwd elem=100 bit=12"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
