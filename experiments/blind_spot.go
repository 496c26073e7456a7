package experiments

// What no tracer saw cannot be named; what can be said is between which records it stands.
var blindSpot = &Cause{
	About: About{
		ID: "blind-spot", Part: "D", Title: "A custom kernel bypasses the tracing of operations",
		Symptom:   "the first mismatch is a view, which computes nothing",
		Cause:     "the kernel that races was loaded as an extension, and the tracer of operations does not see it",
		Diagnose:  "at op level a view's input comes from a producer that has no record: a blind spot one hop upstream; at kernel level the kernel itself is named",
		Cure:      "the order fixed in the kernel; the tracer given the kernel",
		Source:    "Megatron-LM #7262",
		Reference: reportedBlindSpots, Layouts: everyAxis,
	},
	Found:  Found{Root: "layers.0.ssm.in_proj", Class: "arrival", shallow: "blind-spot"},
	config: brief,
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, plans: []string{"layers.0.ssm.in_proj k:splitk(4,arrival)"}, faults: []string{"probe@layers.0.ssm.in_proj as=blind"}},
	cured:  setting{source: true, faults: []string{"probe@layers.0.ssm.in_proj as=blind"}},
}
