package experiments

import "firstbit/train"

const (
	dprobSlots  = "*.grouped_gemm.dprob tiles:seq/fp32"
	dprobStatic = "*.grouped_gemm.dprob sched=static"
)

// Two causes at once: column tiles add into dprob as they arrive, and the dynamic scheduler flips
// the direction in which a tile is walked. Each fix alone leaves the other.
var dprobAtomics = &Cause{
	About: About{
		ID: "dprob-atomics", Part: "A", Title: "Atomic adds in the MoE grouped-GEMM epilogue",
		Symptom:   "loss curves part after some steps although every input is the same; the first bits differ in the gradient of the routing probability",
		Cause:     "N-tiles of the epilogue add into dprob[token] in arrival order, and the dynamic scheduler decides whether a tile is walked forward or backward",
		Diagnose:  "grouped_gemm.dprob in the backward: inputs equal, outputs different, the plan depends on arrival",
		Cure:      "private slots per tile with a fixed tree, and a static scheduler",
		Source:    "TransformerEngine #3407",
		Reference: reportedEpilogue, Layouts: everyAxis,
	},
	Found: Found{Root: "*.grouped_gemm.dprob", Class: "arrival", flips: true},
	// In bf16, as pretraining runs: a last bit of a master now and then rounds its weight the other way.
	config: func() train.Config {
		c := train.Tiny()
		c.Precision, c.Seed = "bf16", 34 // with it routes part within ten steps
		return c
	},
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, plans: []string{"*.grouped_gemm.dprob tiles:arrival/fp32; sched=dynamic"}},
	cured:  setting{source: true, plans: []string{"*.grouped_gemm.dprob tiles:arrival/fp32; sched=dynamic", dprobSlots, dprobStatic}},
	halves: []half{
		{"private slots alone", setting{source: true, plans: []string{"*.grouped_gemm.dprob tiles:arrival/fp32; sched=dynamic", dprobSlots}}},
		{"static scheduler alone", setting{source: true, plans: []string{"*.grouped_gemm.dprob tiles:arrival/fp32; sched=dynamic", dprobStatic}}},
	},
}
