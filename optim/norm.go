package optim

import (
	"math"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/parallel"
	"firstbit/reduce"
)

var (
	// The local sums of squares add up before they travel.
	localSquares = &device.Kernel{Name: "sum", In: device.Names("sum..."), Out: device.Names("sum"), Fixed: reduce.MustPlan("buckets:seq/fp32"),
		Run: device.Width(runLocal[float32], runLocal[float64])}
	rootKernel = &device.Kernel{Name: "sqrt", In: device.Names("sum..."), Out: device.Names("norm"),
		Run: device.Width(runRoot[float32], runRoot[float64])}

	exactSquares = &device.Kernel{Name: "sum_squares.exact", In: device.Names("grad..."), Out: device.Names("digits"), Run: runExactSquares}
	exactRoot    = &device.Kernel{Name: "sqrt.exact", In: device.Names("digits..."), Out: device.Names("norm"), Run: runExactRoot}
)

// normPart is gradients whose squares add up over a group of ranks, in which each element is counted once.
type normPart struct {
	over   parallel.Member
	suffix string // of the labels of its Calls
	has    func(p *nn.Param) bool
}

// normParts are the parts of the norm. Shards are all ranks' together. A replica has a norm of its own: over the ranks that have its dense
// weights, and, where the experts lie otherwise, over those that have its experts, as Megatron's optimizers of both have.
func (a *AdamW) normParts() []normPart {
	switch {
	case !a.Replicated:
		return []normPart{{over: a.rank.All()}}
	case a.rank.Model().Group == a.rank.ExpertModel().Group:
		return []normPart{{over: a.rank.Model()}}
	}
	return []normPart{{a.rank.Model(), "", func(p *nn.Param) bool { return !p.Expert }}, {a.rank.ExpertModel(), ".experts", func(p *nn.Param) bool { return p.Expert }}}
}

// counts tells whether the rank counts its elements of a parameter in the norm.
func (a *AdamW) counts(p *nn.Param) bool {
	if a.Replicated {
		return a.rank.CountsInReplica(p)
	}
	return a.shares(p).Counts
}

// counted are the gradients of a bucket's shard that this rank counts in a part of the norm: all of it as one if it lies so, else by segment.
func (a *AdamW) counted(b *Bucket, part normPart) []*device.Tensor {
	a.grads = a.grads[:0]
	for _, s := range b.Segments {
		if s.counts && (part.has == nil || part.has(s.Param)) {
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
	if a.alone() {
		squares := a.squares(dev, a.parts[0])
		c := dev.Open("norm", gradNorm)
		for _, s := range squares {
			c.Read("sum", s)
		}
		norm := c.Write("norm", squares[0].Format, 1)
		c.Do()
		return norm
	}
	f := lowp.FP32
	if len(a.Buckets) > 0 { // a stage may have no weights
		f = a.Buckets[0].Params[0].Grad.Format
	}
	a.totals = a.totals[:0]
	for _, part := range a.parts {
		squares := a.squares(dev, part)
		c := dev.Open("local"+part.suffix, localSquares)
		for _, s := range squares {
			c.Read("sum", s)
		}
		local := c.Write("sum", f, 1)
		c.Do()
		a.totals = append(a.totals, part.over.AllReduce(dev, "all"+part.suffix, local))
	}
	c := dev.Open("norm", rootKernel)
	for _, sum := range a.totals {
		c.Read("sum", sum)
	}
	norm := c.Write("norm", f, 1)
	c.Do()
	return norm
}

// squares are the sums of the squares of every bucket's shard, of a part.
func (a *AdamW) squares(dev *device.Device, part normPart) []*device.Tensor {
	a.sums = a.sums[:0]
	for _, b := range a.completed() {
		grads := a.counted(b, part)
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
	a.totals = a.totals[:0]
	for _, part := range a.parts {
		c := dev.Open("local"+part.suffix, exactSquares)
		for _, b := range a.Buckets {
			for _, grad := range a.counted(b, part) {
				c.Read("grad", grad)
			}
		}
		sum := c.Write("digits", lowp.INT32, squareDigits)
		c.Do()
		part.over.SumCounts(dev, "all"+part.suffix, sum)
		a.totals = append(a.totals, sum)
	}
	c := dev.Open("norm", exactRoot)
	for _, sum := range a.totals {
		c.Read("digits", sum)
	}
	norm := c.Write("norm", lowp.FP32, 1)
	c.Do()
	return norm
}

func runLocal[T libm.Float](c *device.Call) {
	sums := c.Inputs("sum")
	device.Out[T](c, "sum")[0] = kernel.Run(c.Fold("buckets", len(sums)), func(i int) T { return device.Data[T](sums[i].Tensor)[0] })
}

// runRoot takes one sum, or two, whose order is nothing.
func runRoot[T libm.Float](c *device.Call) {
	sum := kernel.Negzero[T]()
	for _, part := range c.Inputs("sum") {
		sum += device.Data[T](part.Tensor)[0]
	}
	device.Out[T](c, "norm")[0] = root(sum)
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
	var sum [squareDigits]int32
	for _, part := range c.Inputs("digits") {
		for i, d := range part.I32() {
			sum[i] += d
		}
	}
	c.Output("norm").F32()[0] = float32(math.Sqrt(sumOfSquares(sum[:])))
}
