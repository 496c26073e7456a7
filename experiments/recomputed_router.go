package experiments

import "firstbit/train"

// A backward that goes by other routes than the forward went has gradients of a model that was not run.
var recomputedRouter = &Cause{
	About: About{
		ID: "recomputed-router", Part: "E", Title: "A recomputed router is not the forward's",
		Symptom:  "the loss agrees, gradients do not; with recomputation off all is well",
		Cause:    "the logits of the recomputation are added in arrival order, and now and then take another expert",
		Diagnose: "the recomputed logits: inputs equal, outputs different; one trace shows that the forward made others",
		Cure:     "routes kept from the forward, or a fixed order",
		Source:   "Automodel #3156", Layouts: everyAxis,
	},
	Found: Found{Root: "*.moe.router.logits", Class: "arrival", also: []string{"*.moe.router.logits"}},
	config: func() train.Config {
		c := train.Tiny()
		c.Steps, c.Model.Recompute = 20, true
		return c
	},
	vary:     [2]variation{{schedule: 1}, {schedule: 2}},
	broken:   setting{source: true, plans: []string{"*.router.logits phase=rec k:arrival"}},
	cured:    setting{source: true, plans: []string{"*.router.logits phase=rec k:seq"}},
	harmless: []half{{"without recomputation", setting{source: true, set: []string{"model.recompute=false"}}}},
}
