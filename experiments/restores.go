package experiments

import (
	"firstbit/data"
	"firstbit/train"
)

// brief is for causes that show at once.
func brief() train.Config {
	c := train.Tiny()
	c.Steps = 12
	return c
}

// continued is the configuration of causes that show after a restore.
func continued() train.Config {
	c := train.Tiny()
	c.Steps, c.Precision = 8, "bf16"
	return c
}

// noisy is one that draws random numbers.
func noisy() train.Config {
	c := continued()
	c.Model.Dropout = 0.1
	return c
}

// scaled is one whose loss is scaled.
func scaled() train.Config {
	c := continued()
	c.Precision = "fp16"
	c.Optim.LossScale.Initial, c.Optim.LossScale.Hysteresis = 1<<26, 1 // so that it moves before a run is saved
	return c
}

// overflowed is a gradient that fp16 cannot hold, on one rank. It is of a weight that no other rank has, so none adds it up after this.
const overflowed = "set@grads.bucket.0 value=inf elem=40 step=2 rank=1"

// divisible is a cluster's, for tensor parallelism too.
func divisible() train.Config {
	c := cluster()
	c.Model.SSM.Groups = 2
	return c
}

// packed is one with several documents to a sequence, over several microbatches.
func packed() train.Config {
	c := divisible()
	c.Steps, c.Batch, c.Micro, c.PerToken = 8, 2, 2, true
	c.Documents = data.Documents{ResetAttentionMask: true, EODMaskLoss: true, Prompt: 0.3}
	return c
}

// replicated is one whose data-parallel ranks have all of the optimizer each.
func replicated() train.Config {
	c := cluster()
	c.Steps, c.Optim.Replicated = 8, true
	return c
}
