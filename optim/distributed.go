package optim

import (
	"slices"
	"strconv"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/parallel"
)

// New makes an optimizer with zero moments of this rank's shards, or of all its parameters, over buckets of at least so many elements. A
// canonical one has bits that do not depend on the layout; it takes parameters that keep their uses apart.
func New(c Config, params []*nn.Param, rank parallel.Rank, bucket int, canonical bool) *AdamW {
	a := &AdamW{Config: c, Canonical: canonical, rank: rank}
	a.parts = a.normParts()
	if a.alone() {
		a.each(params)
	} else {
		a.fill(params, bucket)
	}
	for _, b := range a.Buckets {
		if !a.Replicated {
			b.owners = b.group
		}
		b.lo, b.hi = parallel.Shard(b.n, b.owners.Size(), b.owners.Index)
		b.lay(canonical)
		b.segment(a)
	}
	return a
}

// alone tells whether there are no other ranks, and their absence is to show: nothing travels, so every parameter is a bucket of its own, with
// its own name and shape, and the norm is one Call. By the canonical recipe one rank does what many do.
func (a *AdamW) alone() bool { return a.rank.Layout().World() == 1 && !a.Canonical }

func (a *AdamW) shares(p *nn.Param) parallel.Shares { return a.rank.Shares(p, a.Canonical) }

// each makes a bucket of every parameter, in order.
func (a *AdamW) each(params []*nn.Param) {
	for _, p := range params {
		a.Buckets = append(a.Buckets, &Bucket{Params: []*nn.Param{p}, label: p.Name, group: a.shares(p).Step, n: p.Grad.Len()})
	}
}

// fill cuts the parameters into buckets of at least so many elements, from the last on. A bucket has one format and one group; what both ends
// of a pipeline have is a bucket by itself, so that both cut it alike.
func (a *AdamW) fill(params []*nn.Param, bucket int) {
	type kind struct {
		f     lowp.Format
		group parallel.Member
	}
	open := map[kind]*Bucket{}
	numbered := 0
	for _, p := range slices.Backward(params) {
		k := kind{p.W.Format, a.shares(p).Step}
		b := open[k]
		ends := p.Ends && a.rank.Ends().Size() > 1
		switch {
		case ends:
			b = &Bucket{label: "bucket." + p.Name, group: k.group, ends: true}
			a.Buckets = append(a.Buckets, b)
		case b == nil:
			b = &Bucket{label: "bucket." + strconv.Itoa(numbered), group: k.group}
			a.Buckets, open[k] = append(a.Buckets, b), b
			numbered++
		}
		b.Params = append(b.Params, p)
		if b.n += p.Grad.Len(); b.n >= bucket && !ends {
			open[k] = nil
		}
	}
}

var packKernel = &device.Kernel{Name: "pack", In: device.Names("grad..."), Out: device.Names("bucket"), Run: runPack}

// reduce adds the gradients over the ranks, into shards, or whole where the optimizer is replicated.
func (a *AdamW) reduce(dev *device.Device) {
	if a.early != nil {
		a.early.finish(dev)
	} else {
		for _, b := range a.Buckets {
			for use := range a.sends(b) {
				label, grads := a.parcel(dev, b, use)
				var sum *device.Tensor
				switch {
				case grads == nil:
				case a.Replicated:
					sum = b.group.AllReduceParts(dev, label, grads)
				default:
					sum = b.group.ReduceScatter(dev, label, grads)
				}
				a.land(dev, b, use, sum)
			}
		}
	}
	for _, b := range a.Buckets {
		a.reduceSame(dev, b)
	}
	for _, b := range a.Buckets {
		if b.ends {
			a.reduceEnds(dev, b)
		}
	}
}

// reduceSame adds the gradients of parameters that every tensor-parallel rank has over these ranks, which have the
// same shards of them.
func (a *AdamW) reduceSame(dev *device.Device, b *Bucket) {
	var segments []*Segment
	var grads []*device.Tensor
	for _, s := range b.Segments {
		if s.same.Size() > 1 {
			segments, grads = append(segments, s), append(grads, s.gradient())
		}
	}
	if len(segments) == 0 {
		return
	}
	label := b.label + ".sequence"
	sum, at := segments[0].same.AllReduce(dev, label, pack(dev, label+".pack", grads)), 0
	for _, s := range segments {
		s.sum, s.from = sum, at
		at += s.Hi - s.Lo
	}
	b.shard = nil
}

// reduceEnds adds the gradient of a weight that both ends of a pipeline have, which have the same shard of it.
func (a *AdamW) reduceEnds(dev *device.Device, b *Bucket) {
	for _, s := range b.Segments { // one
		s.sum = a.rank.Ends().AllReduce(dev, b.label+".ends", s.gradient())
	}
	b.shard = nil
}

// runPack lays tensors down one after another.
func runPack(c *device.Call) {
	bucket, at := c.Output("bucket"), 0
	for _, grad := range c.Inputs("grad") {
		bucket.CopyAt(at, grad.Tensor)
		at += grad.Len()
	}
}
