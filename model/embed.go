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

// Embedding is a table of V rows. A tensor-parallel rank has V/tp of them, and the ids of all its rows.
//
// Shapes: W (V/tp,D), ids (rows) → y (rows/tp,D).
type Embedding struct {
	W  *nn.Param
	TP parallel.Member

	ids *device.Tensor // from the rank's first on
}

var (
	localIDsKernel = &device.Kernel{Name: "local_ids", In: device.Names("ids"), Scalars: device.Names("first"), Out: device.Names("y"),
		Run: runLocalIDs}
	embedding = &device.Kernel{Name: "embedding", ByToken: true, In: device.Names("w ids"), Out: device.Names("y"),
		Run: device.Width(runEmbedding[float32], runEmbedding[float64])}
	embeddingBackwardKernel = &device.Kernel{Name: "embedding.bwd", In: device.Names("dy ids"), Out: device.Names("dw"),
		Fixed: reduce.MustPlan("tokens:seq/fp32; cut=present|all"),
		Fast:  reduce.MustPlan("tokens:arrival/fp32; cut=present|all"), Tokens: "tokens", Canonical: reduce.MustPlan("cut=all"),
		Run: device.Width(runEmbeddingBackward[float32], runEmbeddingBackward[float64])}
)

// Forward looks the ids up. Each row is on one rank and absent from the others.
func (e *Embedding) Forward(dev *device.Device, ids *device.Tensor) *device.Tensor {
	dev.CutColumns(e.TP.Index, e.TP.Size())
	e.ids = e.local(dev, ids)
	c := dev.Open("embed", embedding)
	c.Shards = e.TP.Size()
	c.Read("w", e.W.W)
	c.Read("ids", e.ids)
	y := c.Write("y", nn.PartialFormat(e.W.W.Format, e.TP.Size()), ids.Len(), e.W.W.Cols())
	c.Do()
	return e.TP.Scatter(dev, "embed.scatter", y, 1, e.W.W.Format)
}

// local counts the ids from the first row of the rank's part.
func (e *Embedding) local(dev *device.Device, ids *device.Tensor) *device.Tensor {
	if e.TP.Size() == 1 {
		return ids
	}
	c := dev.Open("embed.ids", localIDsKernel)
	c.Read("ids", ids)
	c.ReadScalar("first", float64(e.TP.Index*e.W.W.Rows()))
	y := c.Write("y", lowp.INT32, ids.Shape()...)
	c.Do()
	return y
}

func runLocalIDs(c *device.Call) {
	localIDs(c.Output("y").I32(), c.Input("ids").I32(), int32(c.Scalar("first")))
}

// Backward adds the gradients of repeated tokens by the plan.
func (e *Embedding) Backward(dev *device.Device, dy *device.Tensor) {
	dy = e.TP.Gather(dev, "embed.gather", dy, 1)
	c := dev.Open("embed.dw", embeddingBackwardKernel)
	c.Read("dy", dy)
	c.Read("ids", e.ids)
	dw := c.Write("dw", e.W.Grad.Format, e.W.Grad.Shape()...)
	c.Do()
	nn.Accumulate(dev, "embed.grad", e.W, dw)
}

func runEmbedding[T libm.Float](c *device.Call) {
	w := c.Input("w")
	lookup(device.Out[T](c, "y"), device.Data[T](w), c.Input("ids").I32(), w.Cols())
}

func runEmbeddingBackward[T libm.Float](c *device.Call) {
	dw, dy, ids, d := device.Out[T](c, "dw"), device.In[T](c, "dy"), c.Input("ids").I32(), c.Input("dy").Cols()
	if c.Plan.Choice("cut") == "all" {
		embeddingBackwardAll(dw, dy, ids, d, c.Fold("tokens", len(ids)))
		return
	}
	if way := c.Race("tokens"); way != kernel.Drawn {
		embeddingScatter(dw, dy, ids, d, way)
		return
	}
	embeddingBackward(dw, dy, ids, d,
		func(n int) kernel.Fold { return c.Fold("tokens", n) })
}
