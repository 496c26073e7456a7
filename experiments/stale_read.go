package experiments

// A workspace is memory that a kernel counts on to be filled, and that somebody used before.
var staleRead = &Cause{
	About: About{
		ID: "stale-read", Part: "B", Title: "A workspace is read before it is written",
		Symptom:  "a run that is repeated in the same process parts from itself; the first step, whose memory is fresh, is the worst",
		Cause:    "the combine starts before the experts have filled the workspace that it reads: some of its rows are what lay there before",
		Diagnose: "what the combine reads is not what the experts wrote, within one run: memory, not a Call; what it read is what was written there the time before",
		Cure:     "the workspace filled before anything reads it",
		Source:   "uninitialised workspaces: PyTorch's torch.utils.deterministic.fill_uninitialized_memory", Layouts: everyAxis,
	},
	Found:  Found{Root: "*.moe.combine*", Class: "memory", verdict: "memory", also: []string{"*.moe.combine*"}},
	config: brief,
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, faults: []string{"early@layers.2.moe.combine step=2-"}},
	cured:  setting{source: true},
}
