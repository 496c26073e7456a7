package experiments

// −0 and +0 compare as equal, and are other bits.
var signedZero = &Cause{
	About: About{
		ID: "signed-zero", Part: "D", Title: "A zero of the other sign",
		Symptom:  "a comparison by value finds nothing, and a digest does",
		Cause:    "one kernel leaves −0 where another leaves +0; it is the probability of a masked key, which nothing reads",
		Diagnose: "attention: inputs equal, outputs different in the sign of one probability, of a key that is masked; no metric or state shows it",
		Cure:     "one convention for the sign, or a comparison that knows it does no harm",
		Source:   "torch.equal(-0., 0.) is true", Layouts: everyAxis,
	},
	Found:  Found{Root: "layers.1.attn.attention", Class: "hardware", seen: 2, unmoved: true},
	config: brief,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"set@layers.1.attn.attention out=probs value=-0 elem=1 step=2 phase=fwd rank=0"}}},
	broken: setting{source: true},
	cured:  setting{source: false, traced: true},
}
