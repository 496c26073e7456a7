package experiments

import "firstbit/train"

// Six decimals of a loss are about twenty of its bits, of a mean over all tokens.
var printedLoss = &Cause{
	About: About{
		ID: "printed-loss", Part: "D", Title: "A printed loss hides the first bit",
		Symptom:  "losses agree to six decimals for many steps, and the runs are held to be the same",
		Cause:    "one weight gradient adds in arrival order: its last bits reach one weight at a time, of which bf16 keeps few",
		Diagnose: "metrics with their bits, and the digest of all state, part many steps before print does",
		Cure:     "runs compared by bits",
		Source:   "logs print six decimals", Layouts: everyAxis,
	},
	Found: Found{Root: "layers.3.mlp.w1.dw", Class: "arrival", unprinted: 3},
	config: func() train.Config {
		c := train.Tiny()
		c.Precision = "bf16"
		return c
	},
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, plans: []string{"layers.3.mlp.w1.dw k:splitk(4,arrival)"}},
	cured:  setting{source: true, plans: []string{"layers.3.mlp.w1.dw k:splitk(4)"}},
}
