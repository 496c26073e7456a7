package model

import (
	"firstbit/device"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/nn"
)

// Normaliser is what the losses of tokens are divided by.
//
// Source: ByMicrobatch and ByToken are Megatron's loss_func without and with calculate_per_token_loss.
type Normaliser uint8

// The normalisers.
const (
	Tokens       Normaliser = iota // the tokens of the step, all of which have labels: known before it
	ByMicrobatch                   // the labels of each microbatch, then the microbatches: a mean of means
	ByToken                        // the labels of the step, which who updates the weights divides by
)

var (
	countLabels = &device.Kernel{Name: "labels", In: device.Names("targets"), Out: device.Names("labels"), Run: runCountLabels}
	meanKernel  = &device.Kernel{Name: "mean", In: device.Names("sum labels"), Out: device.Names("mean"), Run: device.Width(runMean[float32], runMean[float64])}
)

// normalise is the head's loss of the sum of a microbatch's losses, and the number of the rank's labels, ByToken.
//
//	ByMicrobatch: mean = sum / max(1, labels of all ranks that share the microbatch)
func (h *Head) normalise(dev *device.Device, sum *device.Tensor) (loss, labels *device.Tensor) {
	if h.Normaliser == Tokens {
		return sum, nil
	}
	c := dev.Open("labels", countLabels)
	c.Read("targets", h.targets)
	labels = c.Write("labels", lowp.INT32, 1)
	c.Do()
	if h.Normaliser == ByToken {
		return sum, labels
	}
	h.CP.SumCounts(dev, "loss_mean.labels", labels)
	h.labels = labels
	c = dev.Open("loss_mean", meanKernel)
	c.Read("sum", sum)
	c.Read("labels", labels)
	loss = c.Write("mean", sum.Format, 1)
	c.Do()
	return loss, nil
}

func runCountLabels(c *device.Call) {
	n := int32(0)
	for _, id := range c.Input("targets").I32() {
		if id >= 0 {
			n++
		}
	}
	c.Output("labels").I32()[0] = n
}

func runMean[T libm.Float](c *device.Call) {
	device.Out[T](c, "mean")[0] = device.In[T](c, "sum")[0] / T(nn.Labels(c.Input("labels")))
}
