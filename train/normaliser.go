package train

import (
	"firstbit/device"
	"firstbit/lowp"
	"firstbit/model"
)

// labels are those of a step, counted where losses and gradients are divided by them.
type labels struct {
	own     *device.Tensor // of the rank's microbatches
	counted bool           // of this step
	all     *device.Tensor // of all ranks; nil: they are not counted
}

var (
	addLabels   = &device.Kernel{Name: "accumulate.int", In: device.Names("labels sum?"), Out: device.Names("sum"), Run: runAddLabels}
	totalLabels = &device.Kernel{Name: "total.int", In: device.Names("sum?"), Out: device.Names("labels"), Run: runTotalLabels}
)

// normaliser is what the losses of tokens are divided by. With documents the labels of a step are not known before it.
func (c Config) normaliser() model.Normaliser {
	switch {
	case c.PerToken:
		return model.ByToken
	case c.Documents.Any():
		return model.ByMicrobatch
	}
	return model.Tokens
}

// scales are the weights of what a head returns for a microbatch, and of its layers' own losses.
//
//	model.Tokens        1/tokens of the step        1/microbatches of the step
//	model.ByMicrobatch  1/microbatches of the step  1/microbatches of the step
//	model.ByToken       1                           tokens of a microbatch
//
// ByToken both are divided by the labels of the step later. The layers' own losses are means over all tokens, with a label or without.
//
// Source: Megatron Core's router multiplies them by the tokens of a microbatch, so that without masks their weight is one over the microbatches.
func (t *Trainer) scales() (token, layer float64) {
	micros := 1 / float64(t.divisor())
	switch t.weights.Normaliser {
	case model.ByMicrobatch:
		return micros, micros
	case model.ByToken:
		return 1, float64(t.Batch * t.Seq)
	}
	return 1 / float64(t.Batch*t.divisor()*t.Seq), micros
}

// countLabels adds a microbatch's labels to those of the step.
func (t *Trainer) countLabels(dev *device.Device, n *device.Tensor) {
	if n == nil {
		return
	}
	l := &t.labels
	if l.own == nil {
		l.own = device.NewTensor(lowp.INT32, 1)
	}
	c := dev.Open("labels.sum", addLabels)
	c.Read("labels", n)
	if l.counted {
		c.Read("sum", l.own)
	}
	c.Update("sum", l.own)
	c.Do()
	l.counted = true
}

// joinLabels makes the labels of the step those of all ranks: of all that have tokens of their own, and of the stage that has the head.
//
// Source: Megatron's finalize_model_grads.
func (t *Trainer) joinLabels() {
	if t.weights.Normaliser != model.ByToken {
		return
	}
	l, dev := &t.labels, t.dev.In("normaliser")
	c := dev.Open("labels", totalLabels)
	if l.counted {
		c.Read("sum", l.own)
	}
	l.all = c.Write("labels", lowp.INT32, 1)
	c.Do()
	t.rank.Data().SumCounts(dev, "labels.data", l.all)
	t.rank.PP().SumCounts(dev, "labels.stages", l.all)
	t.Optim.Labels, l.counted = l.all, false
}

func runAddLabels(c *device.Call) {
	n := c.Input("labels").I32()[0]
	if sum := c.Input("sum"); sum != nil {
		n += sum.I32()[0]
	}
	c.Output("sum").I32()[0] = n
}

// runTotalLabels is 0 on a stage without the head.
func runTotalLabels(c *device.Call) {
	n := int32(0)
	if sum := c.Input("sum"); sum != nil {
		n = sum.I32()[0]
	}
	c.Output("labels").I32()[0] = n
}
