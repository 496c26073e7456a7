package experiments

// An XOR of all elements says nothing of their order.
var xorPermutation = &Cause{
	About: About{
		ID: "xor-permutation", Part: "D", Title: "Two tokens swap their experts",
		Symptom:   "a trace of XORs finds nothing at the router, and the experts downstream differ",
		Cause:     "an index is wrong: the choices of two tokens change places, so the multiset of experts is the same",
		Diagnose:  "the router's choice: XOR equal, digest and rows different",
		Cure:      "a digest that covers places, and one for each row",
		Source:    "torch.hash_tensor adds by XOR",
		Reference: reportedFingerprints, Layouts: everyAxis,
	},
	Found:  Found{Root: "layers.2.moe.router.topk", Class: "hardware", sameXOR: true},
	config: brief,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"swap@layers.2.moe.router.topk a=3 b=8 step=2 phase=fwd"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
