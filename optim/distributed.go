package optim

import (
	"math"
	"slices"
	"strconv"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/parallel"
	"firstbit/reduce"
)

// Distributed is AdamW over data-parallel ranks, each of which updates a shard: gradients are
// added bucket by bucket into shards, the shards' weights are updated and gathered again.
//
// Source: FACTS §4; Rajbhandari et al. 2020, "ZeRO".
type Distributed struct {
	Config
	Buckets []*Bucket

	// Canonical makes every bit independent of how many ranks there are: see canonical.go.
	Canonical bool

	dp parallel.Member
}

// Bucket is parameters, in reverse order, whose gradients travel together.
type Bucket struct {
	Params   []*device.Param
	Segments []*Segment // what lies in this rank's shard

	label  string
	n      int // elements
	lo, hi int // the shard
	grad   *device.Tensor
	shard  *device.Tensor // of the gradient, summed over the ranks
}

// Segment is the part of a parameter that lies in a rank's shard, and its moments.
type Segment struct {
	Param        *device.Param
	Lo, Hi       int // elements of the parameter
	M, V, Master *device.Tensor

	at       int // where in the shard it begins
	w        *device.Tensor
	of, grad *device.Tensor // a shard, and the segment's part of it
}

// NewDistributed cuts the parameters into buckets of at least so many elements, each of one format, and
// finds this rank's shards.
func NewDistributed(c Config, params []*device.Param, dp parallel.Member, bucket int) *Distributed {
	return newDistributed(c, params, dp, bucket, false)
}

func newDistributed(c Config, params []*device.Param, dp parallel.Member, bucket int, canonical bool) *Distributed {
	d := &Distributed{Config: c, Canonical: canonical, dp: dp}
	open := map[lowp.Format]*Bucket{}
	for _, p := range slices.Backward(params) {
		b := open[p.W.Format]
		if b == nil {
			b = &Bucket{label: "bucket." + strconv.Itoa(len(d.Buckets))}
			d.Buckets, open[p.W.Format] = append(d.Buckets, b), b
		}
		b.Params = append(b.Params, p)
		if b.n += p.Grad.Len(); b.n >= bucket {
			open[p.W.Format] = nil
		}
	}
	for _, b := range d.Buckets {
		if canonical {
			b.n = padded(b.n)
		}
		b.lo, b.hi = parallel.Shard(b.n, dp.Size(), dp.Index)
		b.cut()
	}
	return d
}

// cut finds the segments of the shard.
func (b *Bucket) cut() {
	from := 0
	for _, p := range b.Params {
		lo, hi := max(b.lo-from, 0), min(b.hi-from, p.Grad.Len())
		if lo < hi {
			f := p.Grad.Format
			s := &Segment{Param: p, Lo: lo, Hi: hi, at: from + lo - b.lo, M: device.NewTensor(f, hi-lo), V: device.NewTensor(f, hi-lo),
				Master: p.Master.View(lo, hi)}
			if s.w = s.Master; p.W != p.Master {
				s.w = p.W.View(lo, hi)
			}
			b.Segments = append(b.Segments, s)
		}
		from += p.Grad.Len()
	}
}

var (
	packKernel   = &device.Kernel{Name: "pack", Run: runPack}
	unpackKernel = &device.Kernel{Name: "unpack", Run: device.Width(runUnpack[float32], runUnpack[float64])}
	// The local sums of squares add up before they travel.
	localSquares = &device.Kernel{Name: "sum", Fixed: reduce.MustPlan("buckets:seq/fp32"),
		Run: device.Width(runLocal[float32], runLocal[float64])}
	normOfBuckets = &device.Kernel{Name: "grad_norm", Fixed: reduce.MustPlan("buckets:seq/fp32"),
		Run: device.Width(runNormOfBuckets[float32], runNormOfBuckets[float64])}
	rootKernel = &device.Kernel{Name: "sqrt", Run: device.Width(runRoot[float32], runRoot[float64])}
)

// Step is AdamW.Step over all ranks.
func (d *Distributed) Step(dev *device.Device, step int, rate float64) *device.Tensor {
	grads, reduce, norms := dev.In("grads"), d.reduce, d.norm
	if d.Canonical {
		reduce, norms = d.reduceUses, d.normOfSums
	}
	for _, b := range d.Buckets {
		reduce(grads, b)
	}
	norm := norms(dev.In("grad_norm"))
	opt, weights := dev.In("optim"), dev.In("weights")
	for _, b := range d.Buckets {
		for _, s := range b.Segments {
			d.update(opt, b, s, norm, step, rate)
		}
		d.gather(weights, b)
	}
	return norm
}

// reduce adds a bucket's gradients over the ranks, into shards.
func (d *Distributed) reduce(dev *device.Device, b *Bucket) {
	c := dev.Open(b.label+".pack", packKernel)
	for _, p := range b.Params {
		c.Read(p.Name, p.Grad)
	}
	b.grad = c.Write("bucket", b.Params[0].Grad.Format, b.n)
	c.Do()
	b.shard = d.dp.ReduceScatter(dev, b.label, b.grad)
}

func (d *Distributed) norm(dev *device.Device) *device.Tensor {
	squares := d.squares(dev)
	c := dev.Open("local", localSquares)
	for _, s := range squares {
		c.Read("sum", s)
	}
	local := c.Write("sum", squares[0].Format, 1)
	c.Do()

	all := d.dp.AllReduce(dev, "all", local)
	c = dev.Open("norm", rootKernel)
	c.Read("sum", all)
	norm := c.Write("norm", all.Format, 1)
	c.Do()
	return norm
}

// squares are the sums of the squares of every bucket's shard.
func (d *Distributed) squares(dev *device.Device) []*device.Tensor {
	squares := make([]*device.Tensor, 0, len(d.Buckets))
	for _, b := range d.Buckets {
		c := dev.Open(b.label, sumSquares)
		c.Read("grad", b.shard)
		squares = append(squares, c.Write("sum", b.shard.Format, 1))
		c.Do()
	}
	return squares
}

func (d *Distributed) update(dev *device.Device, b *Bucket, s *Segment, norm *device.Tensor, step int, rate float64) {
	c := dev.OpenKind(device.Optim, s.Param.Name, adamw)
	c.Read("grad", b.gradient(s))
	d.Config.read(c, s.Param, norm, s.Master, s.M, s.V, step, rate)
	if s.w != s.Master {
		c.Update("w", s.w)
	}
	c.Do()
}

// gradient is a segment's part of the summed gradient. Call sites keep their storage, so it is cut out once.
func (b *Bucket) gradient(s *Segment) *device.Tensor {
	if s.of != b.shard {
		s.of, s.grad = b.shard, b.shard.View(s.at, s.at+s.Hi-s.Lo)
	}
	return s.grad
}

// gather gives every rank every shard's new weights.
func (d *Distributed) gather(dev *device.Device, b *Bucket) {
	f := b.Params[0].W.Format
	c := dev.Open(b.label+".pack", packKernel)
	for _, s := range b.Segments {
		c.Read(s.Param.Name, s.w)
	}
	mine := c.Write("bucket", f, b.hi-b.lo)
	c.Do()
	all := d.dp.AllGather(dev, b.label, mine, b.n)

	c = dev.Open(b.label+".unpack", unpackKernel)
	c.Read("bucket", all)
	for _, p := range b.Params {
		c.Update(p.Name, p.W)
	}
	c.Do()
}

// States are the segments' moments and masters.
func (d *Distributed) States() map[*device.Param][]Held {
	held := map[*device.Param][]Held{}
	for _, b := range d.Buckets {
		for _, s := range b.Segments {
			h := Held{Master: s.Master, M: s.M, V: s.V, Lo: s.Lo}
			if b.shard != nil { // there was a step
				h.Grad = b.gradient(s)
			}
			held[s.Param] = append(held[s.Param], h)
		}
	}
	return held
}

// runPack lays tensors down one after another.
func runPack(c *device.Call) {
	at := 0
	for i := range c.In {
		c.Out[0].CopyAt(at, c.In[i].Tensor)
		at += c.In[i].Len()
	}
}

// runUnpack is the inverse of runPack.
func runUnpack[T libm.Float](c *device.Call) {
	x := device.Data[T](c.In[0].Tensor)
	for i := range c.Out {
		y := device.Data[T](c.Out[i].Tensor)
		copy(y, x)
		x = x[len(y):]
	}
}

func runLocal[T libm.Float](c *device.Call) {
	device.Data[T](c.Out[0].Tensor)[0] = kernel.Run(c.Fold("buckets", len(c.In)), func(i int) T { return device.Data[T](c.In[i].Tensor)[0] })
}

func runRoot[T libm.Float](c *device.Call) {
	device.Data[T](c.Out[0].Tensor)[0] = root(device.Data[T](c.In[0].Tensor)[0])
}

func root[T libm.Float](x T) T { return T(math.Sqrt(float64(x))) }
