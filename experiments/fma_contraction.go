package experiments

// A fused multiply-add rounds once where a product and a sum round twice.
var fmaContraction = &Cause{
	About: About{
		ID: "fma-contraction", Part: "A", Title: "A compiler fuses multiply and add",
		Symptom:  "the job parts from an older build's in the first convolution; the order of every sum is the same in both",
		Cause:    "the compiler of the new release contracts a·b + c to one instruction, which rounds once",
		Diagnose: "the convolution: inputs equal, outputs different, the plans have the same order, one of them fuses",
		Cure:     "contraction pinned, off or on, by the kernel's own source",
		Source:   "compilers contract by default: -ffp-contract, nvcc --fmad", Layouts: everyAxis,
	},
	Found:  Found{Root: "layers.0.ssm.conv", Class: "library"},
	config: brief,
	vary:   [2]variation{{schedule: 1, library: "sim-13.1"}, {schedule: 1, library: "sim-13.2"}},
	broken: setting{source: true},
	cured:  setting{source: true, plans: []string{"*.ssm.conv taps:seq/fp32"}},
}
