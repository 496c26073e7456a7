package optim

import (
	"math"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/reduce"
)

var (
	// The local sums of squares add up before they travel.
	localSquares = &device.Kernel{Name: "sum", In: device.Names("sum..."), Out: device.Names("sum"), Fixed: reduce.MustPlan("buckets:seq/fp32"),
		Run: device.Width(runLocal[float32], runLocal[float64])}
	rootKernel = &device.Kernel{Name: "sqrt", In: device.Names("sum"), Out: device.Names("norm"),
		Run: device.Width(runRoot[float32], runRoot[float64])}

	exactSquares = &device.Kernel{Name: "sum_squares.exact", In: device.Names("grad..."), Out: device.Names("digits"), Run: runExactSquares}
	exactRoot    = &device.Kernel{Name: "sqrt.exact", In: device.Names("digits"), Out: device.Names("norm"), Run: runExactRoot}
)

// counted are the gradients of a bucket's shard that this rank counts: all of it as one if it lies so, else by segment.
func (a *AdamW) counted(b *Bucket) []*device.Tensor {
	a.grads = a.grads[:0]
	for _, s := range b.Segments {
		if s.counts {
			a.grads = append(a.grads, s.gradient())
		}
	}
	if b.shard != nil && len(a.grads) == len(b.Segments) {
		a.grads = append(a.grads[:0], b.shard)
	}
	return a.grads
}

// norm is the norm of all gradients of all ranks.
func (a *AdamW) norm(dev *device.Device) *device.Tensor {
	if a.Canonical {
		return a.exactNorm(dev)
	}
	squares := a.squares(dev)
	if a.alone() {
		c := dev.Open("norm", gradNorm)
		for _, s := range squares {
			c.Read("sum", s)
		}
		norm := c.Write("norm", squares[0].Format, 1)
		c.Do()
		return norm
	}
	c := dev.Open("local", localSquares)
	for _, s := range squares {
		c.Read("sum", s)
	}
	f := lowp.FP32
	if len(a.Buckets) > 0 { // a stage may have no weights
		f = a.Buckets[0].Params[0].Grad.Format
	}
	local := c.Write("sum", f, 1)
	c.Do()

	all := a.rank.All().AllReduce(dev, "all", local)
	c = dev.Open("norm", rootKernel)
	c.Read("sum", all)
	norm := c.Write("norm", all.Format, 1)
	c.Do()
	return norm
}

// squares are the sums of the squares of every bucket's shard.
func (a *AdamW) squares(dev *device.Device) []*device.Tensor {
	a.sums = a.sums[:0]
	for _, b := range a.completed() {
		grads := a.counted(b)
		if len(grads) == 0 {
			continue
		}
		grad := grads[0]
		if len(grads) > 1 {
			grad = pack(dev, b.label+".pack", grads)
		}
		c := dev.Open(b.label, sumSquaresKernel)
		c.Read("grad", grad)
		a.sums = append(a.sums, c.Write("sum", grad.Format, 1))
		c.Do()
	}
	return a.sums
}

func pack(dev *device.Device, label string, x []*device.Tensor) *device.Tensor {
	c := dev.Open(label, packKernel)
	n := 0
	for _, x := range x {
		c.Read("grad", x)
		n += x.Len()
	}
	y := c.Write("bucket", x[0].Format, n)
	c.Do()
	return y
}

// exactNorm is norm without a rounding before the end: the root of the exact sum, rounded to float64.
func (a *AdamW) exactNorm(dev *device.Device) *device.Tensor {
	c := dev.Open("local", exactSquares)
	for _, b := range a.Buckets {
		for _, grad := range a.counted(b) {
			c.Read("grad", grad)
		}
	}
	sum := c.Write("digits", lowp.INT32, squareDigits)
	c.Do()

	a.rank.All().SumCounts(dev, "all", sum)
	c = dev.Open("norm", exactRoot)
	c.Read("digits", sum)
	norm := c.Write("norm", lowp.FP32, 1)
	c.Do()
	return norm
}

func runLocal[T libm.Float](c *device.Call) {
	sums := c.Inputs("sum")
	device.Out[T](c, "sum")[0] = kernel.Run(c.Fold("buckets", len(sums)), func(i int) T { return device.Data[T](sums[i].Tensor)[0] })
}

func runRoot[T libm.Float](c *device.Call) {
	device.Out[T](c, "norm")[0] = root(device.In[T](c, "sum")[0])
}

func root[T libm.Float](x T) T { return T(math.Sqrt(float64(x))) }

func runExactSquares(c *device.Call) {
	var s squares
	for _, grad := range c.Inputs("grad") {
		s.Add(grad.F32())
	}
	s.Digits(c.Output("digits").I32())
}

func runExactRoot(c *device.Call) {
	c.Output("norm").F32()[0] = float32(math.Sqrt(sumOfSquares(c.Input("digits").I32())))
}
