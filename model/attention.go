package model

import (
	"math"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/reduce"
)

// Attention is causal grouped-query attention without rotary embedding.
//
//	q, k, v = x·Wq, x·Wk, x·Wv ;  y = softmax(q·kᵀ/√P, causal)·v·Wo
//
// Shapes: x (B·T,D), Wq (D,H·P), Wk, Wv (D,KV·P), Wo (H·P,D) → y (B·T,D).
type Attention struct {
	Wq, Wk, Wv, Wo *device.Param
	Shape          kernel.AttentionShape // B and T are set by the model for each batch

	x, q, k, v, o, probs *device.Tensor
}

var (
	attention = &device.Kernel{Name: "attention", Fixed: reduce.MustPlan("p:seq/fp32; keys:seq/fp32"),
		Run: device.Width(runAttention[float32], runAttention[float64])}
	attentionBackward = &device.Kernel{Name: "attention.bwd",
		Fixed: reduce.MustPlan("p:seq/fp32; keys:seq/fp32; dq:splitk(4)/fp32; queries:seq/fp32"),
		Fast:  reduce.MustPlan("p:seq/fp32; keys:seq/fp32; dq:splitk(4,arrival)/fp32; queries:seq/fp32"),
		Run:   device.Width(runAttentionBackward[float32], runAttentionBackward[float64])}
)

// Forward is the layer.
func (a *Attention) Forward(dev *device.Device, x *device.Tensor) *device.Tensor {
	a.x = x
	a.q = dev.MatMulNN("wq", x, a.Wq.W)
	a.k = dev.MatMulNN("wk", x, a.Wk.W)
	a.v = dev.MatMulNN("wv", x, a.Wv.W)
	c := dev.Open("attention", attention)
	c.Read("q", a.q)
	c.Read("k", a.k)
	c.Read("v", a.v)
	a.scalars(c)
	a.o = c.Write("o", x.Format, a.q.Shape()...)
	s := a.Shape
	a.probs = c.Write("probs", device.MasterFormat(x.Format), s.B, s.H, s.T, s.T)
	c.Do()
	return dev.MatMulNN("wo", a.o, a.Wo.W)
}

// scalars passes the extents that the tensors' shapes do not show.
func (a *Attention) scalars(c *device.Call) {
	c.ReadScalar("batch", float64(a.Shape.B))
	c.ReadScalar("heads", float64(a.Shape.H))
	c.ReadScalar("kv_heads", float64(a.Shape.KV))
}

// Backward returns dx and accumulates the four weight gradients.
func (a *Attention) Backward(dev *device.Device, dy *device.Tensor) *device.Tensor {
	// forward: y = o·Wo
	do := dev.MatMulNT("wo.dx", dy, a.Wo.W)
	dev.Accumulate("wo.grad", a.Wo, dev.MatMulTN("wo.dw", a.o, dy))
	// forward: o = softmax(q·kᵀ/√P)·v
	c := dev.Open("attention.dx", attentionBackward)
	c.Read("do", do)
	c.Read("q", a.q)
	c.Read("k", a.k)
	c.Read("v", a.v)
	c.Read("probs", a.probs)
	a.scalars(c)
	dq := c.Write("dq", a.q.Format, a.q.Shape()...)
	dk := c.Write("dk", a.k.Format, a.k.Shape()...)
	dv := c.Write("dv", a.v.Format, a.v.Shape()...)
	c.Do()
	// forward: q, k, v = x·Wq, x·Wk, x·Wv
	dev.Accumulate("wq.grad", a.Wq, dev.MatMulTN("wq.dw", a.x, dq))
	dev.Accumulate("wk.grad", a.Wk, dev.MatMulTN("wk.dw", a.x, dk))
	dev.Accumulate("wv.grad", a.Wv, dev.MatMulTN("wv.dw", a.x, dv))
	// x feeds q, k and v; their gradients meet here, in this order.
	dx := dev.Sum("dx_qk", dev.MatMulNT("wq.dx", dq, a.Wq.W), dev.MatMulNT("wk.dx", dk, a.Wk.W))
	return dev.Sum("dx", dx, dev.MatMulNT("wv.dx", dv, a.Wv.W))
}

// Params lists the weights.
func (a *Attention) Params() []*device.Param {
	return []*device.Param{a.Wq, a.Wk, a.Wv, a.Wo}
}

// shapeOf rebuilds the extents from what the Call reads.
func shapeOf(c *device.Call, q *device.Tensor) kernel.AttentionShape {
	b, h := int(c.Scalar("batch")), int(c.Scalar("heads"))
	return kernel.AttentionShape{B: b, T: q.Rows() / b, H: h, KV: int(c.Scalar("kv_heads")), P: q.Cols() / h}
}

func runAttention[T libm.Float](c *device.Call) {
	s := shapeOf(c, c.In[0].Tensor)
	folds := kernel.AttentionFolds{P: c.Fold("p", s.P), Keys: c.Fold("keys", s.T)}
	kernel.Attention(device.Data[T](c.Out[0].Tensor), device.Data[T](c.Out[1].Tensor), device.Data[T](c.In[0].Tensor),
		device.Data[T](c.In[1].Tensor), device.Data[T](c.In[2].Tensor), s, scaleOf[T](s), folds)
}

func runAttentionBackward[T libm.Float](c *device.Call) {
	s := shapeOf(c, c.In[1].Tensor)
	folds := kernel.AttentionFolds{P: c.Fold("p", s.P), Keys: c.Fold("keys", s.T), DQ: c.Fold("dq", s.T), Queries: c.Fold("queries", s.H/s.KV*s.T)}
	in := func(i int) []T { return device.Data[T](c.In[i].Tensor) }
	out := func(i int) []T { return device.Data[T](c.Out[i].Tensor) }
	kernel.AttentionBackward(out(0), out(1), out(2), in(0), in(1), in(2), in(3), in(4), s, scaleOf[T](s), folds)
}

// scaleOf is 1/√P.
func scaleOf[T libm.Float](s kernel.AttentionShape) T { return T(1 / math.Sqrt(float64(s.P))) }
