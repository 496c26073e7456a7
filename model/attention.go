package model

import (
	"math"

	"firstbit/device"
	"firstbit/libm"
	"firstbit/nn"
	"firstbit/parallel"
	"firstbit/reduce"
)

// Attention is causal grouped-query attention without rotary embedding.
//
//	q, k, v = x·Wq, x·Wk, x·Wv ;  y = softmax(q·kᵀ/√P, causal within a document)·v·Wo
//
// A tensor-parallel rank has some key-value heads with their query heads. A context-parallel rank has the
// queries of its own steps and gathers the keys and values of all.
//
// Shapes: x (rows/tp,D), Wq (D,H/tp·P), Wk, Wv (D,KV/tp·P), Wo (H/tp·P,D) → y (rows/tp,D); rows = B·T/cp.
type Attention struct {
	Wq, Wk, Wv, Wo *nn.Param
	Shape          attentionShape // heads of the rank; B and T of whole sequences, set by the model for each batch
	TP, CP         parallel.Member
	// Starts (B,T) is, of every step of whole sequences, the one that its document begins at; nil: sequences are documents. Set as B and T are.
	Starts *device.Tensor

	x, q, k, v, o, probs *device.Tensor // x is whole over tp, k and v over cp
}

var (
	attention = &device.Kernel{Name: "attention", ByToken: true, In: device.Names("q k v starts?"), Scalars: device.Names("batch heads kv_heads first?"),
		Out:   device.Names("o probs"),
		Fixed: reduce.MustPlan("p:seq/fp32; keys:seq/fp32"), Products: []string{"p", "keys"},
		Run: device.Width(runAttention[float32], runAttention[float64])}
	attentionBackward = &device.Kernel{Name: "attention.bwd", ByToken: true, In: device.Names("do q k v probs starts?"), Scalars: device.Names("batch heads kv_heads first?"),
		Out:       device.Names("dq dk dv"),
		Fixed:     reduce.MustPlan("p:seq/fp32; keys:seq/fp32; dq:splitk(4)/fp32; queries:seq/fp32; segments:pairwise/fp32; by=head|segment"),
		Fast:      reduce.MustPlan("p:seq/fp32; keys:seq/fp32; dq:splitk(4,arrival)/fp32; queries:seq/fp32; segments:pairwise/fp32; by=head|segment"),
		Products:  []string{"p", "keys", "dq", "queries"},
		Canonical: reduce.MustPlan("by=segment"), // so that the queries of a context-parallel rank are a subtree
		Run:       device.Width(runAttentionBackward[float32], runAttentionBackward[float64])}
)

// Forward is the layer.
func (a *Attention) Forward(dev *device.Device, x *device.Tensor) *device.Tensor {
	dev.CutColumns(a.TP.Index, a.TP.Size())
	a.x = a.TP.Gather(dev, "x.gather", x, 1)
	a.q = nn.Fprop(a.x, a.Wq).Run(dev, "wq")
	a.k = a.CP.Gather(dev, "k.gather", nn.Fprop(a.x, a.Wk).Run(dev, "wk"), a.Shape.B)
	a.v = a.CP.Gather(dev, "v.gather", nn.Fprop(a.x, a.Wv).Run(dev, "wv"), a.Shape.B)
	c := dev.Open("attention", attention)
	c.Read("q", a.q)
	c.Read("k", a.k)
	c.Read("v", a.v)
	a.scalars(c)
	a.o = c.Write("o", x.Format, a.q.Shape()...)
	s := a.Shape
	a.probs = c.Write("probs", nn.MasterFormat(x.Format), s.B, s.H, s.T/a.CP.Size(), s.T)
	c.Do()
	y := nn.Fprop(a.o, a.Wo).Over(a.TP.Size()).Run(dev, "wo")
	return a.TP.Scatter(dev, "wo.scatter", y, 1, x.Format)
}

// scalars passes the extents that the tensors' shapes do not show, and where documents begin.
func (a *Attention) scalars(c *device.Call) {
	c.ReadIf("starts", a.Starts)
	c.ReadScalar("batch", float64(a.Shape.B))
	c.ReadScalar("heads", float64(a.Shape.H))
	c.ReadScalar("kv_heads", float64(a.Shape.KV))
	if a.CP.Size() > 1 {
		c.ReadScalar("first", float64(a.CP.Index*a.Shape.T/a.CP.Size()))
	}
}

// Backward returns dx and accumulates the four weight gradients.
func (a *Attention) Backward(dev *device.Device, dy *device.Tensor) *device.Tensor {
	format := dy.Format
	dy = a.TP.Gather(dev, "dy.gather", dy, 1)
	// forward: y = o·Wo
	do := nn.Dgrad(dy, a.Wo).Run(dev, "wo.dx")
	nn.Accumulate(dev, "wo.grad", a.Wo, nn.Wgrad(a.o, dy, a.Wo).Run(dev, "wo.dw"))
	dq, dk, dv := a.attentionBackward(dev, do)
	// forward: q, k, v = x·Wq, x·Wk, x·Wv
	nn.Accumulate(dev, "wq.grad", a.Wq, nn.Wgrad(a.x, dq, a.Wq).Run(dev, "wq.dw"))
	nn.Accumulate(dev, "wk.grad", a.Wk, nn.Wgrad(a.x, dk, a.Wk).Run(dev, "wk.dw"))
	nn.Accumulate(dev, "wv.grad", a.Wv, nn.Wgrad(a.x, dv, a.Wv).Run(dev, "wv.dw"))
	tp := a.TP.Size()
	dxq := a.TP.Scatter(dev, "wq.dx.scatter", nn.Dgrad(dq, a.Wq).Over(tp).Run(dev, "wq.dx"), 1, format)
	dxk := a.TP.Scatter(dev, "wk.dx.scatter", nn.Dgrad(dk, a.Wk).Over(tp).Run(dev, "wk.dx"), 1, format)
	// x feeds q, k and v; their gradients meet here, in this order.
	dx := nn.Sum(dev, "dx_qk", dxq, dxk)
	return nn.Sum(dev, "dx", dx, a.TP.Scatter(dev, "wv.dx.scatter", nn.Dgrad(dv, a.Wv).Over(tp).Run(dev, "wv.dx"), 1, format))
}

// attentionBackward is the gradients of o = softmax(q·kᵀ/√P)·v for the rank's rows. The queries of every context-parallel
// rank add to all keys, so dk and dv stay at master width until they meet.
func (a *Attention) attentionBackward(dev *device.Device, do *device.Tensor) (dq, dk, dv *device.Tensor) {
	c := dev.Open("attention.dx", attentionBackward)
	c.Read("do", do)
	c.Read("q", a.q)
	c.Read("k", a.k)
	c.Read("v", a.v)
	c.Read("probs", a.probs)
	a.scalars(c)
	format := a.k.Format
	partial := nn.PartialFormat(format, a.CP.Size())
	dq = c.Write("dq", a.q.Format, a.q.Shape()...)
	dk = c.Write("dk", partial, a.k.Shape()...)
	dv = c.Write("dv", partial, a.v.Shape()...)
	c.Do()
	dk = a.CP.Scatter(dev, "dk.scatter", dk, a.Shape.B, format)
	dv = a.CP.Scatter(dev, "dv.scatter", dv, a.Shape.B, format)
	return dq, dk, dv
}

// Params lists the weights.
func (a *Attention) Params() []*nn.Param {
	return []*nn.Param{a.Wq, a.Wk, a.Wv, a.Wo}
}

// shapeOf rebuilds the extents from what the Call reads.
func shapeOf(c *device.Call, q, k *device.Tensor) attentionShape {
	b, h := int(c.Scalar("batch")), int(c.Scalar("heads"))
	s := attentionShape{B: b, T: k.Rows() / b, H: h, KV: int(c.Scalar("kv_heads")), P: q.Cols() / h, Queries: q.Rows() / b}
	if s.Queries < s.T {
		s.First = int(c.Scalar("first"))
	}
	if starts := c.Input("starts"); starts != nil {
		s.Starts = starts.I32()
	}
	return s
}

func runAttention[T libm.Float](c *device.Call) {
	s := shapeOf(c, c.Input("q"), c.Input("k"))
	folds := attentionFolds{P: c.Products("p", s.P, c.Operands("q", "k")), Keys: c.Fold("keys", s.T)}
	attend(device.Out[T](c, "o"), device.Out[T](c, "probs"), device.In[T](c, "q"),
		device.In[T](c, "k"), device.In[T](c, "v"), s, scaleOf[T](s), folds)
}

func runAttentionBackward[T libm.Float](c *device.Call) {
	s := shapeOf(c, c.Input("q"), c.Input("k"))
	run := s.Queries // that follow one another in dk and dv
	if c.Plan.Choice("by") == "segment" {
		run = segmentOf(s)
	}
	folds := attentionFolds{P: c.Products("p", s.P, c.Operands("do", "v")), Keys: c.Fold("keys", s.T), DQ: c.Fold("dq", s.T), Queries: c.Fold("queries", s.H/s.KV*run)}
	if run < s.Queries {
		folds.Segments = c.Fold("segments", s.Queries/run)
	}
	attendBackward(device.Out[T](c, "dq"), device.Out[T](c, "dk"), device.Out[T](c, "dv"),
		device.In[T](c, "do"), device.In[T](c, "q"), device.In[T](c, "k"), device.In[T](c, "v"), device.In[T](c, "probs"), s, scaleOf[T](s), folds)
}

// segmentOf is the queries of a segment: an eighth of the sequence, or one where that does not cut what the rank has.
func segmentOf(s attentionShape) int {
	size := s.T / device.Segments
	if s.T%device.Segments != 0 || s.Queries%size != 0 {
		return 1
	}
	return size
}

// scaleOf is 1/√P.
func scaleOf[T libm.Float](s attentionShape) T { return T(1 / math.Sqrt(float64(s.P))) }
