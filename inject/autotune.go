package inject

import "firstbit/tune"

var autotuneKind = &kind{Name: "autotune", noun: "Call", phase: tune.EveryPhase, Example: "autotune@*.mlp.*",
	does: "at the first Call of a shape all variants of its kernel run, and that which finishes first, as the schedule has it, is kept; plans by hand go over it",
	make: func(*Selector) (action, []field) { return &choosing{chooses: &tune.Autotune{}}, nil }}
