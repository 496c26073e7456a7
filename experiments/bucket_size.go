package experiments

import "firstbit/train"

// The size is meant for speed alone. It also decides at which rank's chunk an element of a gradient lies, and so where its ring begins.
var bucketSize = &Cause{
	About: About{
		ID: "bucket-size", Part: "A", Title: "Another bucket size regroups the reduce-scatter",
		Symptom:  "a size that only decides how much is sent at once changes every weight",
		Cause:    "in a ring an element is added from the rank behind its chunk's owner on, and which chunk it lies in follows from its place in the bucket",
		Diagnose: "the reduce-scatter reads other gradients, those that both runs read are equal, and the configurations differ in cluster.bucket",
		Cure:     "an order independent of the bucket: over ranks pairwise, and a norm whose sum of squares is exact",
		Source:   "DeepSpeed #6351", Layouts: []string{"dp=8", "dp=4,ep=2"},
		Precisions: scalable, Only: "its cure is the canonical recipe, which others cannot have",
	},
	Found: Found{Root: "grads.bucket.*", Class: "topology", also: []string{"weights.bucket.*", "loss_scale.unscale"}}, // the same buckets on their way back, and what reads them
	config: func() train.Config {
		c := cluster()
		c.Model.MoE.Aux = "sequence" // as the canonical recipe asks
		return c
	},
	vary:   [2]variation{{schedule: 1, set: []string{"cluster.bucket=4096"}}, {schedule: 1, set: []string{"cluster.bucket=8192"}}},
	broken: setting{source: true},
	// Parts of the canonical recipe: gradients in one order over the ranks whatever the bucket, and an exact norm. What stays different
	// is which rank holds which part of a moment.
	cured: setting{source: true, recipe: "canonical"},
	// The norm still adds bucket by bucket, and what is clipped by it follows.
	halves: []half{{"gradients by logical rank, the norm by bucket", setting{source: true, plans: []string{"grads.bucket.? ranks:seq"}}}},
}
