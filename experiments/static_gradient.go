package experiments

import "firstbit/train"

// What a graph writes in every replay is the same memory in every replay.
var staticGradient = &Cause{
	About: About{
		ID: "static-gradient", Part: "E", Title: "A graph's static buffer becomes the gradient",
		Symptom:  "with one microbatch all is right; with more, gradients are the last one's",
		Cause:    "the first microbatch's gradient is not copied out of the graph's output buffer but used as the accumulator, and the next replay overwrites it",
		Diagnose: "the accumulation reads another sum than it wrote last: memory, and the trace names the product that wrote there",
		Cure:     "a copy before the next replay",
		Source:   "PyTorch #181723, TransformerEngine #2937", Layouts: everyAxis,
	},
	Found: Found{Root: "layers.3.mlp.w1.grad", Class: "memory", verdict: "memory", also: []string{"layers.3.mlp.w1.grad", "layers.3.mlp.w1.dw"}},
	config: func() train.Config {
		c := divisible()
		c.Steps, c.Batch, c.Micro = 8, 2, 3
		return c
	},
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"alias@layers.3.mlp.w1.grad with=layers.3.mlp.w1.dw"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}
