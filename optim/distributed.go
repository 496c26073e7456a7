package optim

import (
	"slices"
	"strconv"

	"firstbit/device"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/parallel"
)

// Distributed is AdamW over ranks, each of which updates a shard of its parameters: gradients are added bucket by bucket into
// shards over the ranks that have the same parameters, the shards' weights are updated and gathered again.
//
// Source: FACTS §4; Rajbhandari et al. 2020, "ZeRO".
type Distributed struct {
	Config
	Buckets []*Bucket

	// Canonical makes every bit independent of the layout: see canonical.go.
	Canonical bool

	rank  parallel.Rank
	early *early // nil: gradients are added once the step's backward is over
}

// Bucket is parameters, in reverse order, whose gradients travel together.
type Bucket struct {
	Params   []*device.Param
	Segments []*Segment // what lies in this rank's shard

	label  string
	group  parallel.Member // which has the same parameters and other tokens
	ends   bool            // it adds over the ends of the pipeline too
	n      int             // elements
	lo, hi int             // the shard
	shard  *device.Tensor  // of the gradient, summed over the ranks
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

// NewDistributed cuts the parameters into buckets of at least so many elements, and finds this rank's shards. A bucket has one
// format and one group; what both ends of a pipeline have is a bucket by itself, so that both cut it alike.
func NewDistributed(c Config, params []*device.Param, rank parallel.Rank, bucket int) *Distributed {
	return newDistributed(c, params, rank, bucket, false)
}

func newDistributed(c Config, params []*device.Param, rank parallel.Rank, bucket int, canonical bool) *Distributed {
	d := &Distributed{Config: c, Canonical: canonical, rank: rank}
	type kind struct {
		f     lowp.Format
		group parallel.Member
	}
	open := map[kind]*Bucket{}
	numbered := 0
	for _, p := range slices.Backward(params) {
		k := kind{p.W.Format, d.groupOf(p)}
		b := open[k]
		ends := p.Ends && rank.Ends().Size() > 1
		switch {
		case ends:
			b = &Bucket{label: "bucket." + p.Name, group: k.group, ends: true}
			d.Buckets = append(d.Buckets, b)
		case b == nil:
			b = &Bucket{label: "bucket." + strconv.Itoa(numbered), group: k.group}
			d.Buckets, open[k] = append(d.Buckets, b), b
			numbered++
		}
		b.Params = append(b.Params, p)
		if b.n += p.Grad.Len(); b.n >= bucket && !ends {
			open[k] = nil
		}
	}
	for _, b := range d.Buckets {
		b.lo, b.hi = parallel.Shard(b.n, b.group.Size(), b.group.Index)
		b.cut()
	}
	return d
}

// groupOf is the ranks over which a parameter's gradient is still to be added, each of which has all of it.
func (d *Distributed) groupOf(p *device.Param) parallel.Member {
	switch {
	case d.Canonical:
		return d.canonicalGroup(p)
	case p.Expert:
		return d.rank.EDP()
	}
	return d.rank.Data()
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
	// What was added apart is laid over its place.
	overlayKernel = &device.Kernel{Name: "overlay", Run: device.Width(runOverlay[float32], runOverlay[float64])}
)

// Step is AdamW.Step over all ranks.
func (d *Distributed) Step(dev *device.Device, step int, rate float64) *device.Tensor {
	grads, reduce, norms := dev.In("grads"), d.reduce, d.norm
	if d.Canonical {
		reduce, norms = d.reduceUses, d.exactNorm
	}
	if d.early != nil {
		d.early.finish(grads)
	} else {
		for _, b := range d.Buckets {
			reduce(grads, b)
		}
	}
	if !d.Canonical { // what each microbatch had joined there
		for _, b := range d.Buckets {
			d.reduceSequence(grads, b)
		}
	}
	for _, b := range d.Buckets {
		if b.ends {
			b.shard = d.rank.Ends().AllReduce(grads, b.label+".ends", b.shard)
		}
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
	b.shard = b.group.ReduceScatter(dev, b.label, b.pack(dev))
}

// pack lays a bucket's gradients one after another.
func (b *Bucket) pack(dev *device.Device) *device.Tensor {
	c := dev.Open(b.label+".pack", packKernel)
	for _, p := range b.Params {
		c.Read(p.Name, p.Grad)
	}
	bucket := c.Write("bucket", b.Params[0].Grad.Format, b.n)
	c.Do()
	return bucket
}

// reduceSequence adds the gradients of parameters that every tensor-parallel rank has over these ranks, which have the
// same shards of them.
func (d *Distributed) reduceSequence(dev *device.Device, b *Bucket) {
	segments := b.Segments[:0:0]
	n := 0
	for _, s := range b.Segments {
		if s.Param.Sequence {
			segments = append(segments, s)
			n += s.Hi - s.Lo
		}
	}
	if n == 0 || d.rank.TP().Size() == 1 {
		return
	}
	label := b.label + ".sequence"
	c := dev.Open(label+".pack", packKernel)
	for _, s := range segments {
		c.Read(s.Param.Name, b.gradient(s))
	}
	mine := c.Write("bucket", b.shard.Format, n)
	c.Do()
	sum := d.rank.TP().AllReduce(dev, label, mine)

	c = dev.Open(label+".overlay", overlayKernel)
	c.Read("bucket", b.shard)
	c.Read("sum", sum)
	for _, s := range segments {
		c.ReadScalar("at", float64(s.at))
		c.ReadScalar("n", float64(s.Hi-s.Lo))
	}
	b.shard = c.Write("bucket", b.shard.Format, b.shard.Len())
	c.Do()
}

// runOverlay copies its first input and lays runs of its second over it, of which the scalars say where and how long.
func runOverlay[T libm.Float](c *device.Call) {
	y, x := device.Data[T](c.Out[0].Tensor), device.Data[T](c.In[1].Tensor)
	copy(y, device.Data[T](c.In[0].Tensor))
	for i := 0; i < len(c.Scalars); i += 2 {
		at, n := int(c.Scalars[i].Value), int(c.Scalars[i+1].Value)
		copy(y[at:at+n], x)
		x = x[n:]
	}
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
	all := b.group.AllGather(dev, b.label, mine, b.n)

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
