package experiments

// Without its mask a packed sequence is one long document.
var maskLost = &Cause{
	About: About{
		ID: "mask-lost", Part: "E", Title: "The mask of packed documents is lost",
		Symptom:  "the loss is lower than it should be: tokens see the document before theirs",
		Cause:    "where documents begin is not handed on to the layers",
		Diagnose: "the batch: one run's says where documents begin, and the other's does not",
		Cure:     "the boundaries in the batch, and a layer that refuses to run without them",
		Source:   "packing in Megatron and transformers: position_ids and cu_seqlens", Layouts: everyAxis,
	},
	Found:  Found{Root: "batch", Class: "control"},
	config: packed,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, set: []string{"documents.reset_attention_mask=false"}}},
	broken: setting{source: true},
	cured:  setting{source: true, set: []string{"documents.reset_attention_mask=true"}},
}
