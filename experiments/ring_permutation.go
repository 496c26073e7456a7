package experiments

import "firstbit/train"

// cluster is what causes over ranks are shown on.
func cluster() train.Config {
	c := train.Pico()
	c.Steps = 20
	c.Cluster.Bucket = 1 << 12
	return c
}

// inFlight is one whose gradients are sent during the backward, in small buckets.
func inFlight() train.Config {
	c := divisible()
	c.Steps, c.Cluster.Bucket, c.Cluster.Overlap = 8, 1<<11, true
	return c
}

// Nothing is racing: the job runs on other nodes, and its ranks stand in the ring in another order.
var ringPermutation = &Cause{
	About: About{
		ID: "ring-permutation", Part: "A", Title: "The same job on another allocation: another ring",
		Symptom:  "every allocation repeats itself bit for bit, and no two agree",
		Cause:    "the order of the ranks in a channel's ring follows the topology of the nodes the job was given, and each chunk is added along it",
		Diagnose: "the reduce-scatter of gradients: the inputs of all members are equal, outputs differ on every rank",
		Cure:     "an order by logical rank",
		Source:   "NCCL #1461, #1055", Layouts: []string{"dp=8"},
	},
	Found:  Found{Root: "grads.bucket.*", Class: "topology", also: []string{"grad_norm.all", "metrics.*"}},
	config: cluster,
	vary: [2]variation{{schedule: 1, plans: []string{"grads.bucket.? ring=1", "grad_norm.all ring=1"}},
		{schedule: 1, plans: []string{"grads.bucket.? ring=2", "grad_norm.all ring=2"}}},
	broken: setting{source: true},
	cured:  setting{source: true, plans: []string{"grads.bucket.? ranks:seq", "grad_norm.all ranks:seq"}},
	halves: []half{{"gradients by logical rank, the norm along the ring", setting{source: true, plans: []string{"grads.bucket.? ranks:seq"}}}},
}
