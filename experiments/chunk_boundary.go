package experiments

// The scan goes through its sequence chunk by chunk, and where the sequence is cut elsewhere a chunk ends that had not ended before.
var chunkBoundary = &Cause{
	About: About{
		ID: "chunk-boundary", Part: "E", Title: "A sequence is cut off the scan's chunk boundary",
		Symptom:  "the same sequence gives other states once part of it is computed apart, on another rank or as a prefix that is kept",
		Cause:    "the cut ends a chunk early: the state is a chain of other chunks, and its sum has another tree",
		Diagnose: "diff --layouts: the scan's inputs agree over all ranks, what it writes does not, and no plan differs",
		Cure:     "the canonical recipe, whose order does not depend on the cut",
		Source:   "SGLang #13309", Layouts: []string{"cp=2", "cp=4", "cp=2,tp=2"},
		Precisions: []string{"fp32"}, Only: "in others results are rounded to the format, which hides the state that differs first",
	},
	Found:  Found{Root: "layers.0.ssm.scan"},
	config: crossing,
	vary:   [2]variation{{schedule: 1}, {schedule: 1}},
	across: true,
	broken: setting{source: true, plans: []string{"*.ssm.scan* chunk=32"}},
	cured:  setting{source: true, plans: []string{"*.ssm.scan* chunk=32"}, recipe: "canonical"},
	halves: []half{{"chunks that end where the cut is", setting{source: true, plans: []string{"*.ssm.scan* chunk=8"}}}},
}
