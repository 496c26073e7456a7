package moe

import (
	"firstbit/device"
	"firstbit/libm"
	"firstbit/nn"
	"firstbit/reduce"
)

var (
	normalizeBackwardKernel = &device.Kernel{Name: "normalize.bwd", ByToken: true, In: device.Names("dprob chosen sum"), Scalars: device.Names("scaling normalized"),
		Out:   device.Names("dchosen"),
		Fixed: reduce.MustPlan("slots:seq/fp32"),
		Run:   device.Width(runNormalizeBackward[float32], runNormalizeBackward[float64])}
	scatterKernel = &device.Kernel{Name: "gather.bwd", ByToken: true, In: device.Names("dchosen index"), Out: device.Names("dscores"),
		Run: device.Width(runScatter[float32], runScatter[float64])}
	auxBackward = &device.Kernel{Name: "fused_aux_loss.bwd", In: device.Names("counts"), Scalars: device.Names("coeff scale"),
		Out: device.Names("dshare"),
		Run: device.Width(runAuxBackward[float32], runAuxBackward[float64])}
	shareBackward = &device.Kernel{Name: "prob_share.bwd", ByToken: true, In: device.Names("dshare scores"), Out: device.Names("dscores"),
		Fixed: reduce.MustPlan("experts:seq/fp32"),
		Run:   device.Width(runShareBackward[float32], runShareBackward[float64])}
	sigmoidBackwardKernel = &device.Kernel{Name: "sigmoid.bwd", ByToken: true, In: device.Names("dscores scores"), Out: device.Names("dlogits"),
		Run: device.Width(runSigmoidBackward[float32], runSigmoidBackward[float64])}
	softmaxBackwardKernel = &device.Kernel{Name: "softmax.bwd", ByToken: true, In: device.Names("dscores scores"), Out: device.Names("dlogits"),
		Fixed: reduce.MustPlan("experts:seq/fp32"),
		Run:   device.Width(runSoftmaxBackward[float32], runSoftmaxBackward[float64])}
	zBackward = &device.Kernel{Name: "z_loss.bwd", ByToken: true, In: device.Names("logits"), Scalars: device.Names("coeff scale"), Out: device.Names("dlogits"),
		Fixed: reduce.MustPlan("experts:seq/fp32"),
		Run:   device.Width(runZBackward[float32], runZBackward[float64])}
)

// Backward takes the gradient of p and of the two losses (each of weight scale)
// back to x and W. The choice itself has no gradient.
func (r *Router) Backward(dev *device.Device, dprob *device.Tensor, scale float64) (dx *device.Tensor) {
	// forward: p = scaling·s/(Σs + ε), s gathered from scores
	dchosen := r.normalizeBackward(dev, dprob)
	dlogits := r.scoresAndAuxBackward(dev, r.scatter(dev, dchosen), scale)

	// forward: z = coeff·mean(logsumexp²)
	dlogits = nn.Sum(dev, "logits.dsum", dlogits, r.zBackward(dev, scale))

	// forward: logits = x·Wᵀ
	nn.Accumulate(dev, "w.grad", r.W, nn.Multiply(nn.TN, dlogits, r.x).Run(dev, "w.dw")) // (E,D)
	return nn.Multiply(nn.NN, dlogits, r.W.W).In(r.x.Format).Run(dev, "w.dx")            // (T,D)
}

// scoresAndAuxBackward takes the gradient of what was chosen from, and the load-balancing loss, to the logits.
func (r *Router) scoresAndAuxBackward(dev *device.Device, d *device.Tensor, scale float64) *device.Tensor {
	if r.Router == "softmax_topk" {
		// forward: aux = C·Σ_i n_i·Σ_t softmax(logits)_ti. The logits feed the choice and the
		// loss; their gradients meet here, in this order.
		return nn.Sum(dev, "logits.dchoice", d, r.scoreBackward(dev, r.auxBackward(dev, scale)))
	}
	// forward: aux = C·Σ_i n_i·Σ_t share_ti. The scores feed the choice and the loss;
	// their gradients meet here, in this order.
	dscores := nn.Sum(dev, "scores.dsum", d, r.auxBackward(dev, scale))

	// forward: scores = sigmoid(logits) or softmax(logits)
	return r.scoreBackward(dev, dscores)
}

func (r *Router) normalizeBackward(dev *device.Device, dprob *device.Tensor) *device.Tensor {
	if r.Router == "softmax_topk" {
		return r.softmaxOfChosenBackward(dev, dprob)
	}
	c := dev.Open("prob.dx", normalizeBackwardKernel)
	c.Read("dprob", dprob)
	c.Read("chosen", r.chosen)
	c.Read("sum", r.sum)
	c.ReadScalar("scaling", r.Scaling)
	c.ReadScalar("normalized", b2f(r.normalized()))
	d := c.Write("dchosen", r.chosen.Format, r.chosen.Shape()...)
	c.Do()
	return d
}

func (r *Router) scatter(dev *device.Device, dchosen *device.Tensor) *device.Tensor {
	c := dev.Open("chosen.dx", scatterKernel)
	c.Read("dchosen", dchosen)
	c.Read("index", r.index)
	d := c.Write("dscores", r.scores.Format, r.scores.Shape()...)
	c.Do()
	return d
}

func (r *Router) auxBackward(dev *device.Device, scale float64) *device.Tensor {
	c := dev.Open("aux_loss.dx", auxBackward)
	c.Read("counts", r.counts)
	c.ReadScalar("coeff", r.auxFactor())
	c.ReadScalar("scale", scale)
	d := c.Write("dshare", r.share.Format, r.share.Shape()...)
	c.Do()
	if r.Router == "sigmoid" {
		c = dev.Open("share.dx", shareBackward)
		c.Read("dshare", d)
		c.Read("scores", r.allScores)
		d = c.Write("dscores", r.scores.Format, r.allScores.Shape()...)
		c.Do()
	}
	return r.ownRows(dev, "scores.own", d)
}

func (r *Router) scoreBackward(dev *device.Device, dscores *device.Tensor) *device.Tensor {
	k := softmaxBackwardKernel
	if r.Router == "sigmoid" {
		k = sigmoidBackwardKernel
	}
	c := dev.Open("scores.dx", k)
	c.Read("dscores", dscores)
	c.Read("scores", r.scores)
	d := c.Write("dlogits", r.scores.Format, r.scores.Shape()...)
	c.Do()
	return d
}

func (r *Router) zBackward(dev *device.Device, scale float64) *device.Tensor {
	c := dev.Open("z_loss.dx", zBackward)
	c.Read("logits", r.allLogits)
	c.ReadScalar("coeff", r.ZCoeff)
	c.ReadScalar("scale", scale)
	d := c.Write("dlogits", r.scores.Format, r.allLogits.Shape()...)
	c.Do()
	return r.ownRows(dev, "logits.own", d)
}

func runNormalizeBackward[T libm.Float](c *device.Call) {
	ds, dp := device.Out[T](c, "dchosen"), device.In[T](c, "dprob")
	scaling := T(c.Scalar("scaling"))
	if c.Scalar("normalized") == 0 {
		scale(ds, dp, scaling)
		return
	}
	k := c.Input("dprob").Cols()
	normalizeBackward(ds, dp, device.In[T](c, "chosen"), device.In[T](c, "sum"), k, scaling, c.Fold("slots", k))
}

func runScatter[T libm.Float](c *device.Call) {
	d := c.Output("dscores")
	gatherBackward(device.Data[T](d), device.In[T](c, "dchosen"), c.Input("index").I32(), d.Cols(), c.Input("index").Cols())
}

func runAuxBackward[T libm.Float](c *device.Call) {
	d := c.Output("dshare")
	auxLossBackward(device.Data[T](d), c.Input("counts").I32(), d.Cols(), T(c.Scalar("coeff")), T(c.Scalar("scale")))
}

func runShareBackward[T libm.Float](c *device.Call) {
	e := c.Input("dshare").Cols()
	probShareBackward(device.Out[T](c, "dscores"), device.In[T](c, "dshare"), device.In[T](c, "scores"), e, c.Fold("experts", e))
}

func runSigmoidBackward[T libm.Float](c *device.Call) {
	sigmoidBackward(device.Out[T](c, "dlogits"), device.In[T](c, "dscores"), device.In[T](c, "scores"))
}

func runSoftmaxBackward[T libm.Float](c *device.Call) {
	e := c.Input("dscores").Cols()
	softmaxBackward(device.Out[T](c, "dlogits"), device.In[T](c, "dscores"), device.In[T](c, "scores"), e, c.Fold("experts", e))
}

func runZBackward[T libm.Float](c *device.Call) {
	l := c.Input("logits")
	zLossBackward(device.Out[T](c, "dlogits"), device.Data[T](l), l.Cols(), T(c.Scalar("coeff")), T(c.Scalar("scale")), c.Fold("experts", l.Cols()))
}
