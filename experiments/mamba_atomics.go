package experiments

import (
	"slices"

	"firstbit/train"
)

// The sums over heads and over rows race apart from one another.
const (
	scanHeads     = "*.ssm.scan.dx heads:arrival/fp32"
	scanSkip      = "*.ssm.d.dw rows:splitk(8,arrival)/fp32"
	scanDecay     = "*.ssm.a_log.dw rows:splitk(8,arrival)/fp32"
	scanStep      = "*.ssm.dt_bias.dw rows:splitk(8,arrival)/fp32"
	scanConv      = "*.ssm.conv.dw rows:splitk(8,arrival)/fp32"
	scanHeadsSlot = "*.ssm.scan.dx heads:seq/fp32"
)

var mambaRacing = []string{scanHeads, scanSkip, scanDecay, scanStep, scanConv}

var mambaFixed = []string{"*.ssm.d.dw rows:splitk(8,seq)/fp32", "*.ssm.a_log.dw rows:splitk(8,seq)/fp32",
	"*.ssm.dt_bias.dw rows:splitk(8,seq)/fp32", "*.ssm.conv.dw rows:splitk(8,seq)/fp32"}

// The scan's backward adds atomically in several places; each must be cured.
var mambaAtomics = &Cause{
	About: About{
		ID: "mamba-atomics", Part: "A", Title: "Atomic adds in the backward of the state-space scan",
		Symptom:  "forward passes agree, gradients of the Mamba layers do not, from the first backward on",
		Cause:    "dB and dC are added over the heads of a group, dA, dD, ddt_bias and the convolution's weight gradient over rows, all in arrival order",
		Diagnose: "the scan's backward: inputs equal, db and dc different, dx equal; the parameters' gradients are roots of their own",
		Cure:     "a slot per contribution and a fixed tree over the slots, in every one of them",
		Source:   "mamba #827, Megatron-LM #6655", Layouts: []string{"dp=1", "cp=2", "pp=2", "ep=2"},
	},
	Found: Found{Root: "*.ssm.scan.dx", Class: "arrival", also: []string{"*.ssm.d.dw", "*.ssm.a_log.dw", "*.ssm.dt_bias.dw", "*.ssm.conv.dw"}},
	config: func() train.Config {
		c := train.Tiny()
		c.Model.SSM.Groups = 1 // two contributions are the same either way round
		return c
	},
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, plans: mambaRacing},
	cured:  setting{source: true, plans: slices.Concat(mambaRacing, []string{scanHeadsSlot}, mambaFixed)},
	halves: []half{
		{"slots over heads alone", setting{source: true, plans: slices.Concat(mambaRacing, []string{scanHeadsSlot})}},
		{"slots over rows alone", setting{source: true, plans: slices.Concat(mambaRacing, mambaFixed)}},
	},
}
