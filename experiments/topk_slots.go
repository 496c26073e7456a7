package experiments

import "firstbit/train"

// Both runs choose the same experts. Where a kernel leaves them decides the order of every sum over slots.
var topkSlots = &Cause{
	About: About{
		ID: "topk-slots", Part: "B", Title: "Top-k kernels leave the same experts in other slots",
		Symptom:  "no route differs, and the bits do: first in the routing probabilities",
		Cause:    "one kernel leaves the largest score first, another the lowest index; the normalising sum and the combine run in slot order",
		Diagnose: "moe.router.topk: inputs equal, the rows of the index differ as lists and agree as sets",
		Cure:     "slots sorted by expert after the choice",
		Source:   "Megatron-LM #7441", Layouts: everyAxis,
	},
	Found: Found{Root: "*.moe.router.topk*", Class: "tuner"},
	config: func() train.Config {
		c := train.Tiny()
		c.Model.MoE.TopK = 4 // two values are the same sum either way round
		return c
	},
	vary:   [2]variation{{schedule: 1, plans: []string{"*.router.topk* slots=value"}}, {schedule: 1, plans: []string{"*.router.topk* slots=index"}}},
	broken: setting{source: true},
	cured:  setting{source: true, plans: []string{"*.router.topk* sort=true"}},
}
