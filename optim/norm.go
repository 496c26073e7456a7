package optim

import (
	"math"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/nn"
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

// counts tells whether this rank's part of a parameter is in its sum of squares: of those that have the same elements, one
// counts them.
func (d *Distributed) counts(p *nn.Param) bool {
	switch {
	case p.Ends && d.rank.Ends().Index > 0, p.Sequence && d.rank.TP().Index > 0:
		return false
	case !d.Canonical:
		return true
	case p.Expert:
		return d.rank.Siblings().Index == 0
	}
	return d.rank.CP().Index == 0
}

// counted are the gradients of a bucket's shard that this rank counts: all of it as one if it lies so, else by segment.
func (d *Distributed) counted(b *Bucket) []*device.Tensor {
	var grads []*device.Tensor
	for _, s := range b.Segments {
		if d.counts(s.Param) {
			grads = append(grads, s.gradient())
		}
	}
	if b.shard != nil && len(grads) == len(b.Segments) {
		return []*device.Tensor{b.shard}
	}
	return grads
}

// norm is the norm of all gradients of all ranks.
func (d *Distributed) norm(dev *device.Device) *device.Tensor {
	squares := d.squares(dev)
	c := dev.Open("local", localSquares)
	for _, s := range squares {
		c.Read("sum", s)
	}
	f := lowp.FP32
	if len(d.Buckets) > 0 { // a stage may have no weights
		f = d.Buckets[0].Params[0].Grad.Format
	}
	local := c.Write("sum", f, 1)
	c.Do()

	all := d.rank.All().AllReduce(dev, "all", local)
	c = dev.Open("norm", rootKernel)
	c.Read("sum", all)
	norm := c.Write("norm", all.Format, 1)
	c.Do()
	return norm
}

// squares are the sums of the squares of every bucket's shard.
func (d *Distributed) squares(dev *device.Device) []*device.Tensor {
	squares := make([]*device.Tensor, 0, len(d.Buckets))
	for _, b := range d.completed() {
		grads := d.counted(b)
		if len(grads) == 0 {
			continue
		}
		grad := grads[0]
		if len(grads) > 1 {
			grad = pack(dev, b.label+".pack", grads)
		}
		c := dev.Open(b.label, sumSquares)
		c.Read("grad", grad)
		squares = append(squares, c.Write("sum", grad.Format, 1))
		c.Do()
	}
	return squares
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
func (d *Distributed) exactNorm(dev *device.Device) *device.Tensor {
	c := dev.Open("local", exactSquares)
	for _, b := range d.Buckets {
		for _, grad := range d.counted(b) {
			c.Read("grad", grad)
		}
	}
	sum := c.Write("digits", lowp.INT32, kernel.SquareDigits)
	c.Do()

	d.rank.All().SumCounts(dev, "all", sum)
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
	var s kernel.Squares
	for _, grad := range c.Inputs("grad") {
		s.Add(grad.F32())
	}
	s.Digits(c.Output("digits").I32())
}

func runExactRoot(c *device.Call) {
	c.Output("norm").F32()[0] = float32(math.Sqrt(kernel.SumOfSquares(c.Input("digits").I32())))
}
