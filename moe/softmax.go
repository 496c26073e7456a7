package moe

import (
	"firstbit/device"
	"firstbit/libm"
	"firstbit/reduce"
)

var (
	softmaxTopKKernel = &device.Kernel{Name: "softmax_topk", ByToken: true, In: device.Names("chosen"), Scalars: device.Names("scaling"),
		Out: device.Names("prob weights"), Fixed: reduce.MustPlan("slots:seq/fp32"),
		Run: device.Width(runSoftmaxTopK[float32], runSoftmaxTopK[float64])}
	softmaxTopKBackwardKernel = &device.Kernel{Name: "softmax_topk.bwd", ByToken: true, In: device.Names("dprob weights"), Scalars: device.Names("scaling"),
		Out: device.Names("dchosen"), Fixed: reduce.MustPlan("slots:seq/fp32"),
		Run: device.Width(runSoftmaxTopKBackward[float32], runSoftmaxTopKBackward[float64])}
)

// softmaxOfChosen is p = scaling·softmax over the chosen logits.
func (r *Router) softmaxOfChosen(dev *device.Device) *device.Tensor {
	c := dev.Open("prob", softmaxTopKKernel)
	c.Read("chosen", r.chosen)
	c.ReadScalar("scaling", r.Scaling)
	p := c.Write("prob", r.chosen.Format, r.chosen.Shape()...)
	r.weights = c.Write("weights", r.chosen.Format, r.chosen.Shape()...)
	c.Do()
	return p
}

func (r *Router) softmaxOfChosenBackward(dev *device.Device, dprob *device.Tensor) *device.Tensor {
	c := dev.Open("prob.dx", softmaxTopKBackwardKernel)
	c.Read("dprob", dprob)
	c.Read("weights", r.weights)
	c.ReadScalar("scaling", r.Scaling)
	d := c.Write("dchosen", r.chosen.Format, r.chosen.Shape()...)
	c.Do()
	return d
}

func runSoftmaxTopK[T libm.Float](c *device.Call) {
	k := c.Input("chosen").Cols()
	softmaxTopK(device.Out[T](c, "prob"), device.Out[T](c, "weights"), device.In[T](c, "chosen"), k, T(c.Scalar("scaling")), c.Fold("slots", k))
}

func runSoftmaxTopKBackward[T libm.Float](c *device.Call) {
	k := c.Input("dprob").Cols()
	softmaxTopKBackward(device.Out[T](c, "dchosen"), device.In[T](c, "dprob"), device.In[T](c, "weights"), k, T(c.Scalar("scaling")), c.Fold("slots", k))
}
