package inject

import "firstbit/tune"

var captureKind = &kind{Name: "capture", noun: "Call", phase: tune.EveryPhase, Example: "capture@layers.0.*",
	does: "Calls keep the plans of recipe fast, as kernels do that were set up before a recipe or plans by hand were chosen: these do not reach them",
	make: func(*Selector) (action, []field) { return &choosing{chooses: tune.Captured{}}, nil }}
