package optim

import (
	"firstbit/device"
	"firstbit/libm"
	"firstbit/nn"
)

var divideKernel = &device.Kernel{Name: "divide", In: device.Names("labels *"), Out: device.Names("*"), Run: device.Width(runDivide[float32], runDivide[float64])}

// divide divides the gradients, as they are summed over microbatches and ranks and where they lie, by the labels of the step: once, and by
// the same number on every rank.
//
// Source: Megatron's finalize_model_grads, which multiplies by the reciprocal.
func (a *AdamW) divide(dev *device.Device) {
	c := dev.Open("divide", divideKernel)
	c.Read("labels", a.Labels)
	a.divided = sums(a.divided[:0], a.Buckets)
	for _, x := range a.divided {
		c.Read(x.Name, x.Tensor)
		c.Update(x.Name, x.Tensor)
	}
	c.Do()
}

func runDivide[T libm.Float](c *device.Call) {
	n := T(nn.Labels(c.Input("labels")))
	for _, grad := range c.Outputs("*") {
		g := device.Data[T](grad.Tensor)
		for i := range g {
			g[i] /= n
		}
	}
}
