package model

import (
	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/reduce"
)

// Embedding is a table of V rows.
type Embedding struct {
	W *device.Param

	ids *device.Tensor
}

var (
	embedding         = &device.Kernel{Name: "embedding", Run: device.Width(runEmbedding[float32], runEmbedding[float64])}
	embeddingBackward = &device.Kernel{Name: "embedding.bwd", Fixed: reduce.MustPlan("tokens:seq/fp32; cut=present|all"),
		Fast: reduce.MustPlan("tokens:arrival/fp32; cut=present|all"), Tokens: "tokens", Canonical: reduce.MustPlan("cut=all"),
		Run: device.Width(runEmbeddingBackward[float32], runEmbeddingBackward[float64])}
)

// Forward looks the ids up.
func (e *Embedding) Forward(dev *device.Device, ids *device.Tensor) *device.Tensor {
	e.ids = ids
	c := dev.Open("embed", embedding)
	c.Read("w", e.W.W)
	c.Read("ids", ids)
	y := c.Write("y", e.W.W.Format, ids.Len(), e.W.W.Cols())
	c.Do()
	return y
}

// Backward adds the gradients of repeated tokens by the plan.
func (e *Embedding) Backward(dev *device.Device, dy *device.Tensor) {
	c := dev.Open("embed.dw", embeddingBackward)
	c.Read("dy", dy)
	c.Read("ids", e.ids)
	dw := c.Write("dw", e.W.Grad.Format, e.W.Grad.Shape()...)
	c.Do()
	dev.Accumulate("embed.grad", e.W, dw)
}

func runEmbedding[T libm.Float](c *device.Call) {
	w := c.In[0].Tensor
	kernel.Embedding(device.Data[T](c.Out[0].Tensor), device.Data[T](w), c.In[1].I32(), w.Cols())
}

func runEmbeddingBackward[T libm.Float](c *device.Call) {
	dw, dy, ids, d := device.Data[T](c.Out[0].Tensor), device.Data[T](c.In[0].Tensor), c.In[1].I32(), c.In[0].Cols()
	if c.Plan.Choice("cut") == "all" {
		kernel.EmbeddingBackwardAll(dw, dy, ids, d, c.Fold("tokens", len(ids)))
		return
	}
	kernel.EmbeddingBackward(dw, dy, ids, d,
		func(n int) kernel.Fold { return c.Fold("tokens", n) })
}

// Head is the projection to the vocabulary and the cross-entropy.
type Head struct {
	W *device.Param // (V,D); the embedding's when tied

	x, logits, lse, targets *device.Tensor
}

var (
	crossEntropy = &device.Kernel{Name: "cross_entropy", Fixed: reduce.MustPlan("vocab:seq/fp32"),
		Run: device.Width(runLoss[float32], runLoss[float64])}
	crossEntropyBackward = &device.Kernel{Name: "cross_entropy.bwd", Run: device.Width(runLossBackward[float32], runLossBackward[float64])}
	sumKernel            = &device.Kernel{Name: "sum", Fixed: reduce.MustPlan("tokens:seq/fp32"), Tokens: "tokens", Run: device.Width(runSum[float32], runSum[float64])}
)

// Forward returns the sum of the tokens' losses, in nats.
func (h *Head) Forward(dev *device.Device, x, targets *device.Tensor) *device.Tensor {
	h.x, h.targets = x, targets
	f := device.MasterFormat(x.Format)
	h.logits = dev.MatMulNTIn(f, "logits", x, h.W.W) // (rows,V)
	c := dev.Open("loss", crossEntropy)
	c.Read("logits", h.logits)
	c.Read("targets", targets)
	loss := c.Write("loss", f, x.Rows())
	h.lse = c.Write("lse", f, x.Rows())
	c.Do()

	c = dev.Open("loss_sum", sumKernel)
	c.Read("loss", loss)
	sum := c.Write("sum", f, 1)
	c.Do()
	return sum
}

// Logits are those of the last Forward, (rows,V).
func (h *Head) Logits() *device.Tensor { return h.logits }

// Backward starts from dloss = scale, one over the tokens of the global batch.
func (h *Head) Backward(dev *device.Device, scale float64) *device.Tensor {
	c := dev.Open("logits.dx", crossEntropyBackward)
	c.Read("logits", h.logits)
	c.Read("lse", h.lse)
	c.Read("targets", h.targets)
	c.ReadScalar("scale", scale)
	d := c.Write("dlogits", h.x.Format, h.logits.Shape()...)
	c.Do()
	dev.Accumulate("logits.grad", h.W, dev.MatMulTN("logits.dw", d, h.x)) // (V,D)
	return dev.MatMulNN("logits.dh", d, h.W.W)                            // (rows,D)
}

func runLoss[T libm.Float](c *device.Call) {
	l := c.In[0].Tensor
	kernel.CrossEntropy(device.Data[T](c.Out[0].Tensor), device.Data[T](c.Out[1].Tensor), device.Data[T](l), c.In[1].I32(), l.Cols(), c.Fold("vocab", l.Cols()))
}

func runLossBackward[T libm.Float](c *device.Call) {
	l := c.In[0].Tensor
	kernel.CrossEntropyBackward(device.Data[T](c.Out[0].Tensor), device.Data[T](l), device.Data[T](c.In[1].Tensor), c.In[2].I32(), l.Cols(), T(c.Scalar("scale")))
}

func runSum[T libm.Float](c *device.Call) {
	x := c.In[0].Tensor
	device.Data[T](c.Out[0].Tensor)[0] = kernel.Sum(c.Fold("tokens", x.Len()), device.Data[T](x), 1)
}
