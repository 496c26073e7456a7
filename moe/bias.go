package moe

import (
	"firstbit/device"
	"firstbit/libm"
)

var (
	tokensKernel = &device.Kernel{Name: "expert_tokens", In: device.Names("index tokens"), Out: device.Names("tokens"), Run: runTokens}
	biasKernel   = &device.Kernel{Name: "expert_bias", In: device.Names("bias tokens"), Scalars: device.Names("rate"),
		Out: device.Names("bias tokens"),
		Run: device.Width(runBias[float32], runBias[float64])}
)

// CountTokens adds the microbatch's choices to the step's count per expert.
func (r *Router) CountTokens(dev *device.Device) {
	c := dev.Open("tokens", tokensKernel)
	c.Read("index", r.index)
	c.Read("tokens", r.Tokens)
	c.Update("tokens", r.Tokens)
	c.Do()
}

// UpdateBias moves the bias of every expert towards balance and starts a new count.
//
//	bias_i += rate·sign(mean(n) − n_i)
//
// Source: docs/facts.md, Model.
func (r *Router) UpdateBias(dev *device.Device) {
	c := dev.Open("bias", biasKernel)
	c.Read("bias", r.Bias)
	c.Read("tokens", r.Tokens)
	c.ReadScalar("rate", r.BiasRate)
	c.Update("bias", r.Bias)
	c.Update("tokens", r.Tokens)
	c.Do()
}

func runTokens(c *device.Call) {
	n := c.Output("tokens").I32()
	for _, e := range c.Input("index").I32() {
		n[e]++
	}
}

func runBias[T libm.Float](c *device.Call) {
	bias, n := device.Out[T](c, "bias"), c.Output("tokens").I32()
	total := int32(0)
	for _, v := range n {
		total += v
	}
	rate := T(c.Scalar("rate"))
	for i, v := range n {
		// mean(n) > n_i without dividing: Σn > E·n_i
		switch above := int64(total) - int64(len(n))*int64(v); {
		case above > 0:
			bias[i] += rate
		case above < 0:
			bias[i] -= rate
		}
	}
	clear(n)
}
