package model

import (
	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/parallel"
	"firstbit/reduce"
)

// Head is the projection to the vocabulary and the cross-entropy. A tensor-parallel rank has the logits of part of the
// vocabulary for all its rows, and with the others the loss of each.
//
// Shapes: x (rows/tp,D), targets (rows).
type Head struct {
	W  *nn.Param // (V/tp,D); the embedding's when tied
	TP parallel.Member
	CP parallel.Member // the ranks that share its sequences, over which losses meet before microbatches do

	Normaliser Normaliser

	x, logits, lse, targets *device.Tensor // of all rows
	labels                  *device.Tensor // how many of the microbatch's targets are labels; nil: they are not counted
}

var (
	crossEntropyKernel = &device.Kernel{Name: "cross_entropy", ByToken: true, In: device.Names("logits targets"), Out: device.Names("loss lse"),
		Fixed: reduce.MustPlan("vocab:seq/fp32; max=row|tile"), Sharded: "vocab",
		Run: device.Width(runLoss[float32], runLoss[float64])}
	crossEntropyBackwardKernel = &device.Kernel{Name: "cross_entropy.bwd", ByToken: true, In: device.Names("logits lse targets labels?"),
		Scalars: device.Names("scale first?"), Out: device.Names("dlogits"),
		Run: device.Width(runLossBackward[float32], runLossBackward[float64])}
	sumKernel = &device.Kernel{Name: "sum", ByToken: true, In: device.Names("loss"), Out: device.Names("sum"),
		Fixed: reduce.MustPlan("tokens:seq/fp32"), Tokens: "tokens", Run: device.Width(runSum[float32], runSum[float64])}

	// The cross-entropy in pieces between which ranks with parts of the vocabulary meet.
	rowMaxKernel = &device.Kernel{Name: "row_max", In: device.Names("logits"), Out: device.Names("max"),
		Run: device.Width(runRowMax[float32], runRowMax[float64])}
	crossEntropyPartKernel = &device.Kernel{Name: "cross_entropy.part", ByToken: true, In: device.Names("logits max targets"), Scalars: device.Names("first?"),
		Out:   device.Names("sum target"),
		Fixed: reduce.MustPlan("vocab:seq/fp32"), Sharded: "vocab",
		Run: device.Width(runLossPart[float32], runLossPart[float64])}
	crossEntropyJoinKernel = &device.Kernel{Name: "cross_entropy.join", ByToken: true, In: device.Names("max sum target targets"), Out: device.Names("loss lse"),
		Run: device.Width(runLossJoin[float32], runLossJoin[float64])}
)

// Forward returns the tokens' loss, in nats: their sum, or their mean (ByMicrobatch); and the number of the rank's labels, ByToken.
func (h *Head) Forward(dev *device.Device, x, targets *device.Tensor) (loss, labels *device.Tensor) {
	dev.CutColumns(h.TP.Index, h.TP.Size())
	h.x, h.targets = h.TP.Gather(dev, "logits.gather", x, 1), targets
	f := nn.MasterFormat(x.Format)
	h.logits = nn.Multiply(nn.NT, h.x, h.W.W).In(f).Run(dev, "logits") // (rows,V/tp)
	each := h.losses(dev, f)
	c := dev.Open("loss_sum", sumKernel)
	c.Shards = h.CP.Size()
	c.Read("loss", each)
	sum := c.Write("sum", f, 1)
	c.Do()
	return h.normalise(dev, h.CP.AllReduceByToken(dev, "loss_sum.join", sum))
}

// losses is every row's loss; it keeps lse.
func (h *Head) losses(dev *device.Device, f lowp.Format) *device.Tensor {
	if h.TP.Size() > 1 {
		return h.lossesOfParts(dev, f)
	}
	rows := h.logits.Rows()
	c := dev.Open("loss", crossEntropyKernel)
	c.Read("logits", h.logits)
	c.Read("targets", h.targets)
	loss := c.Write("loss", f, rows)
	h.lse = c.Write("lse", f, rows)
	c.Do()
	return loss
}

// lossesOfParts is losses where each rank has some of the logits.
func (h *Head) lossesOfParts(dev *device.Device, f lowp.Format) *device.Tensor {
	rows := h.logits.Rows()
	c := dev.Open("loss.max", rowMaxKernel)
	c.Read("logits", h.logits)
	m := c.Write("max", f, rows)
	c.Do()
	m = h.TP.Largest(dev, "loss.max.all", m)

	c = dev.Open("loss.part", crossEntropyPartKernel)
	c.Shards = h.TP.Size()
	c.Read("logits", h.logits)
	c.Read("max", m)
	c.Read("targets", h.targets)
	h.first(c)
	sum := c.Write("sum", f, rows)
	target := c.Write("target", f, rows)
	c.Do()
	sum = h.TP.AllReduceByToken(dev, "loss.sum.all", sum)
	target = h.TP.AllReduceByToken(dev, "loss.target.all", target) // one rank has it, so the sum is exact

	c = dev.Open("loss", crossEntropyJoinKernel)
	c.Read("max", m)
	c.Read("sum", sum)
	c.Read("target", target)
	c.Read("targets", h.targets)
	loss := c.Write("loss", f, rows)
	h.lse = c.Write("lse", f, rows)
	c.Do()
	return loss
}

// first passes which token the rank's first logit is of.
func (h *Head) first(c *device.Call) {
	if h.TP.Size() > 1 {
		c.ReadScalar("first", float64(h.TP.Index*h.W.W.Rows()))
	}
}

// Logits are those of the last Forward, (rows,V/tp).
func (h *Head) Logits() *device.Tensor { return h.logits }

// Backward starts from dloss = scale, such as one over the tokens of the global batch.
func (h *Head) Backward(dev *device.Device, scale float64) *device.Tensor {
	c := dev.Open("logits.dx", crossEntropyBackwardKernel)
	c.Read("logits", h.logits)
	c.Read("lse", h.lse)
	c.Read("targets", h.targets)
	c.ReadIf("labels", h.labels)
	c.ReadScalar("scale", scale)
	h.first(c)
	d := c.Write("dlogits", h.x.Format, h.logits.Shape()...)
	c.Do()
	nn.Accumulate(dev, "logits.grad", h.W, nn.Multiply(nn.TN, d, h.x).Run(dev, "logits.dw")) // (V/tp,D)
	dh := nn.Multiply(nn.NN, d, h.W.W).Over(h.TP.Size()).Run(dev, "logits.dh")               // (rows,D)
	return h.TP.Scatter(dev, "logits.dh.scatter", dh, 1, h.x.Format)                         // (rows/tp,D)
}

func runLoss[T libm.Float](c *device.Call) {
	l := c.Input("logits")
	loss, lse, targets := device.Out[T](c, "loss"), device.Out[T](c, "lse"), c.Input("targets").I32()
	if c.Plan.Choice("max") == "tile" {
		tiles, join := c.Tiles("vocab", l.Cols())
		crossEntropyByTile(loss, lse, device.Data[T](l), targets, l.Cols(), tiles, join)
		return
	}
	crossEntropy(loss, lse, device.Data[T](l), targets, l.Cols(), c.Fold("vocab", l.Cols()))
}

func runLossBackward[T libm.Float](c *device.Call) {
	l, scale := c.Input("logits"), c.Scalar("scale")
	if labels := c.Input("labels"); labels != nil {
		scale /= nn.Labels(labels)
	}
	crossEntropyBackward(device.Out[T](c, "dlogits"), device.Data[T](l), device.In[T](c, "lse"), c.Input("targets").I32(),
		l.Cols(), int(c.Scalar("first")), T(scale))
}

func runRowMax[T libm.Float](c *device.Call) {
	l := c.Input("logits")
	rowMax(device.Out[T](c, "max"), device.Data[T](l), l.Cols())
}

func runLossPart[T libm.Float](c *device.Call) {
	l := c.Input("logits")
	crossEntropyPart(device.Out[T](c, "sum"), device.Out[T](c, "target"), device.Data[T](l), device.In[T](c, "max"),
		c.Input("targets").I32(), l.Cols(), int(c.Scalar("first")), c.Fold("vocab", l.Cols()))
}

func runLossJoin[T libm.Float](c *device.Call) {
	crossEntropyJoin(device.Out[T](c, "loss"), device.Out[T](c, "lse"), device.In[T](c, "max"), device.In[T](c, "sum"), device.In[T](c, "target"), c.Input("targets").I32())
}

func runSum[T libm.Float](c *device.Call) {
	x := c.Input("loss")
	device.Out[T](c, "sum")[0] = kernel.Sum(c.Fold("tokens", x.Len()), device.Data[T](x), 1)
}
