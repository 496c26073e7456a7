package experiments

import "firstbit/train"

// One ulp in one number touches every weight, if that number scales every gradient.
var clipNorm = &Cause{
	About: About{
		ID: "clip-norm", Part: "A", Title: "The ranks' shares of the gradient norm added as they arrive",
		Symptom:  "every gradient is the same to the bit, and after the step every weight is not",
		Cause:    "the all-reduce of the sums of squares adds in arrival order; the clipping coefficient multiplies all gradients",
		Diagnose: "grad_norm.all: the inputs of all members are equal, the sum is not",
		Cure:     "a fixed order over the ranks",
		Source:   "Megatron Core clip_grads: norm over all ranks, then one coefficient", Layouts: []string{"dp=8"},
	},
	Found: Found{Root: "grad_norm.all", Class: "arrival"},
	config: func() train.Config {
		c := cluster()
		c.Optim.Clip = 0.5 // below the norm, or the coefficient is clamped to 1 and hides it
		return c
	},
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, plans: []string{"grad_norm.all ranks:arrival"}},
	cured:  setting{source: true, plans: []string{"grad_norm.all ranks:arrival", "grad_norm.all ranks:seq"}},
}
