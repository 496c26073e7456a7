package optim

import (
	"slices"
	"strconv"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/parallel"
)

// Distributed is AdamW over ranks, each of which updates a shard of its parameters: gradients are added bucket by bucket into
// shards over the ranks that have the same parameters, the shards' weights are updated and gathered again.
//
// Source: docs/facts.md, Training step; Rajbhandari et al. 2020, "ZeRO".
type Distributed struct {
	Config
	Buckets []*Bucket

	// Canonical makes every bit independent of the layout: see canonical.go.
	Canonical bool

	rank  parallel.Rank
	early *early // nil: gradients are added once the step's backward is over
}

// NewDistributed cuts the parameters into buckets of at least so many elements, and finds this rank's shards. A bucket has one
// format and one group; what both ends of a pipeline have is a bucket by itself, so that both cut it alike.
func NewDistributed(c Config, params []*nn.Param, rank parallel.Rank, bucket int) *Distributed {
	return newDistributed(c, params, rank, bucket, false)
}

func newDistributed(c Config, params []*nn.Param, rank parallel.Rank, bucket int, canonical bool) *Distributed {
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
		b.lay(canonical)
		b.cut()
	}
	return d
}

// groupOf is the ranks over which a parameter's gradient is still to be added, each of which has all of it.
func (d *Distributed) groupOf(p *nn.Param) parallel.Member {
	switch {
	case d.Canonical:
		return d.canonicalGroup(p)
	case p.Expert:
		return d.rank.EDP()
	}
	return d.rank.Data()
}

var packKernel = &device.Kernel{Name: "pack", In: device.Names("grad..."), Out: device.Names("bucket"), Run: runPack}

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
			d.reduceEnds(grads, b)
		}
	}
	norm := norms(dev.In("grad_norm"))
	opt, weights := dev.In("optim"), dev.In("weights")
	for _, b := range d.Buckets {
		for _, s := range b.Segments {
			d.update(opt, s, norm, step, rate)
		}
		b.gather(weights, b.weights)
	}
	return norm
}

// reduce adds a bucket's gradients over the ranks, into shards.
func (d *Distributed) reduce(dev *device.Device, b *Bucket) {
	b.land(b.group.ReduceScatter(dev, b.label, b.grads))
}

// reduceSequence adds the gradients of parameters that every tensor-parallel rank has over these ranks, which have the
// same shards of them.
func (d *Distributed) reduceSequence(dev *device.Device, b *Bucket) {
	if d.rank.TP().Size() == 1 {
		return
	}
	var segments []*Segment
	var grads []*device.Tensor
	for _, s := range b.Segments {
		if s.Param.Sequence {
			segments, grads = append(segments, s), append(grads, s.gradient())
		}
	}
	if len(segments) == 0 {
		return
	}
	label := b.label + ".sequence"
	sum, at := d.rank.TP().AllReduce(dev, label, pack(dev, label+".pack", grads)), 0
	for _, s := range segments {
		s.sum, s.from = sum, at
		at += s.Hi - s.Lo
	}
	b.shard = nil
}

// reduceEnds adds the gradient of a weight that both ends of a pipeline have, which have the same shard of it.
func (d *Distributed) reduceEnds(dev *device.Device, b *Bucket) {
	for _, s := range b.Segments { // one
		s.sum = d.rank.Ends().AllReduce(dev, b.label+".ends", s.gradient())
	}
	b.shard = nil
}

func (d *Distributed) update(dev *device.Device, s *Segment, norm *device.Tensor, step int, rate float64) {
	c := dev.OpenKind(device.Optim, s.Param.Name, adamw)
	c.Read("grad", s.gradient())
	d.Config.read(c, s.Param, norm, s.Master, s.M, s.V, step, rate)
	if s.w != s.Master {
		c.Update("w", s.w)
	}
	c.Do()
}

// States lists those of the segments in this rank's shards.
func (d *Distributed) States() map[*nn.Param][]device.Held {
	all := map[*nn.Param][]device.Held{}
	for _, b := range d.Buckets {
		for _, s := range b.Segments {
			all[s.Param] = append(all[s.Param], held(s.Param, s.Lo, s.Master, s.M, s.V, s.gradient())...)
		}
	}
	return all
}

// runPack lays tensors down one after another.
func runPack(c *device.Call) {
	bucket, at := c.Output("bucket"), 0
	for _, grad := range c.Inputs("grad") {
		bucket.CopyAt(at, grad.Tensor)
		at += grad.Len()
	}
}
