package experiments

// A release of the library is the same interface with other kernels behind it.
var libraryUpdate = &Cause{
	About: About{
		ID: "library-update", Part: "A", Title: "A new library release ships another kernel",
		Symptom:   "the job parts from yesterday's in the first forward after the container was updated; each of them repeats itself",
		Cause:     "the new release adds the products of the same call in another order",
		Diagnose:  "the product: inputs equal, outputs different, its record names another release and another plan; localize --bisect library names the release",
		Cure:      "the kernel path pinned, whatever the release",
		Source:    "containers that move on: release notes of cuBLAS do not promise bits between releases",
		Reference: reportedLibrary, Layouts: everyAxis,
	},
	Found:  Found{Root: "layers.0.ssm.in_proj", Class: "library", also: products},
	config: brief,
	vary:   [2]variation{{schedule: 1, library: "sim-13.0"}, {schedule: 1, library: "sim-13.1"}},
	broken: setting{source: true},
	cured:  setting{source: true, faults: []string{"library@* to=sim-13.0"}},
	halves: []half{{"pinned in the forward alone", setting{source: true, faults: []string{"library@* to=sim-13.0 phase=fwd"}}}},
}
