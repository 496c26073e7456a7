package experiments

import "firstbit/train"

// Stages between the ends of a pipeline read no tokens, and layers there need where documents begin none the less.
var stageBoundaries = &Cause{
	About: About{
		ID: "stage-boundaries", Part: "E", Title: "Stages between the ends of a pipeline lack the boundaries of documents",
		Symptom:  "with more than two stages and tensor parallelism the loss on packed documents is another; where kernels check shapes, a crash",
		Cause:    "the first and the last stage broadcast the whole batch, those between them not where documents begin: there other tensor-parallel ranks than the first see one long document",
		Diagnose: "the broadcast on a middle stage: the inputs of all members equal, one member's output different",
		Cure:     "the boundaries broadcast on every stage",
		Source:   "Megatron-LM #4092", Layouts: []string{"tp=2,pp=4", "cp=2,pp=4"},
	},
	Found:  Found{Root: "chunk.*.batch.starts", Class: "hardware", also: []string{"chunk.*.batch.starts"}},
	config: packedOverTP,
	vary:   [2]variation{{schedule: 1}, {schedule: 1, faults: []string{"unwritten@chunk.*.batch.starts rows=0-1 rank=3"}}},
	broken: setting{source: true},
	cured:  setting{source: false},
}

// packedOverTP is packed for two tensor-parallel ranks.
func packedOverTP() train.Config {
	c := packed()
	c.Model.SSM.Groups = 2
	return c
}
