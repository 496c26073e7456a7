package experiments

// A tracer that uses what training uses is part of the training.
var probeEffect = &Cause{
	About: About{
		ID: "probe-effect", Part: "D", Title: "A tracer draws from a random stream of training",
		Symptom:  "the traced run is another than the untraced one",
		Cause:    "to sample what it looks at, the tracer draws from the stream of dropout",
		Diagnose: "the first thing that differs reads the stream as the tracer's draw left it, and one run alone has that draw",
		Cure:     "a stream of the tracer's own",
		Source:   "tracers that sample by the global generator", Layouts: everyAxis,
	},
	Found:    Found{Root: "probe.rng.dropout.tp", Class: "state", seen: 1},
	config:   noisy,
	vary:     [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"probe@layers.0.norm as=draw phase=fwd micro=0"}}},
	broken:   setting{source: true},
	cured:    setting{source: false, traced: true},
	halves:   []half{{"both traced", setting{source: true, traced: true}}},
	harmless: []half{{"neither traced", setting{source: true}}},
}
