package experiments

import "firstbit/train"

// While one chunk's experts are to read what came, the other's gradients are under way, to the same place. How much of them is there
// by then is a matter of timing.
var bufferAlias = &Cause{
	About: About{
		ID: "buffer-alias", Part: "B", Title: "Two virtual pipeline chunks share one dispatch buffer",
		Symptom:  "with overlap no run repeats itself; without it every run does, with the same buffer",
		Cause:    "a chunk's dispatch starts into the buffer in which another chunk's rows wait to be read, and overwrites those it comes to first",
		Diagnose: "what reads the dispatched rows reads other bits than the dispatch wrote, within one run: memory, not a Call",
		Cure:     "a buffer for each chunk",
		Source:   "Megatron-Bridge #2171", Layouts: []string{"pp=2,vpp=2,ep=2", "pp=2,vpp=2,ep=4"},
	},
	Found: Found{Root: "layers.*.moe.dispatch.*", Class: "memory", verdict: "memory"},
	config: func() train.Config {
		c := cluster()
		c.Steps, c.Micro, c.Cluster.Overlap = 6, 4, true
		c.Model.Pattern = "*EMEME*E" // a mixture of experts in every chunk
		return c
	},
	vary:   [2]variation{{schedule: 1}, {schedule: 2}},
	broken: setting{source: true, faults: []string{"alias@*.moe.dispatch.a2a with=*.moe.combine.a2a.dx"}},
	cured: setting{source: true, faults: []string{
		"alias@layers.1.moe.dispatch.a2a with=layers.1.moe.combine.a2a.dx", "alias@layers.3.moe.dispatch.a2a with=layers.3.moe.combine.a2a.dx",
		"alias@layers.5.moe.dispatch.a2a with=layers.5.moe.combine.a2a.dx", "alias@layers.7.moe.dispatch.a2a with=layers.7.moe.combine.a2a.dx"}},
	harmless: []half{{"the same buffer, without overlap", setting{source: true, set: []string{"cluster.overlap=false"},
		faults: []string{"alias@*.moe.dispatch.a2a with=*.moe.combine.a2a.dx"}}}},
}
