package optim

import (
	"slices"

	"firstbit/device"
	"firstbit/nn"
	"firstbit/parallel"
	"firstbit/state"
)

// Bucket is parameters, in reverse order, whose gradients travel together.
type Bucket struct {
	Params   []*nn.Param
	Segments []*Segment // what lies in this rank's shard

	label  string
	group  parallel.Member // which has the same parameters and other tokens
	owners parallel.Member // each of whom updates a shard; alone: the rank updates all of it
	ends   bool            // it adds over the ends of the pipeline too
	n      int             // elements
	lo, hi int             // the shard

	grads            *device.Buffer
	weights, masters gathered
	uses             []*use         // canonical: the gradients of each use
	shard            *device.Tensor // the sum over the ranks where the whole shard is in one tensor; nil: see the segments
}

// Segment is the part of a parameter that lies in a rank's shard, and its moments.
type Segment struct {
	Param        *nn.Param
	Lo, Hi       int // elements of the parameter
	M, V, Master *device.Tensor

	place  state.Place
	at     int // where in the shard it begins
	w      *device.Tensor
	same   parallel.Member // the ranks with the same shard, over which its gradient is still to be added
	counts bool            // it enters the rank's part of the norm

	sum   *device.Tensor // holds its gradient as far as it is summed, from element from on; nil: there was no step
	from  int
	views map[*device.Tensor]*device.Tensor // of sums
}

// gradient is the segment's part of the sum, nil before the first step. A fault may lay the sum elsewhere until the last moment, so where it
// lies is asked when it is read.
func (s *Segment) gradient() *device.Tensor {
	n := s.Hi - s.Lo
	if s.sum == nil || s.sum.Len() == n {
		return s.sum
	}
	v := s.views[s.sum]
	if v == nil || !v.LiesIn(s.sum, s.from) {
		v = s.sum.View(s.from, s.from+n)
		s.views[s.sum] = v
	}
	v.From = s.sum.From // more than one Call of a step may write to it
	return v
}

// sums lists what the gradients of buckets lie in, each tensor once and by the name of the first parameter in it.
func sums(all []device.Arg, buckets []*Bucket) []device.Arg {
	for _, b := range buckets {
		for _, s := range b.Segments {
			if !slices.ContainsFunc(all, func(x device.Arg) bool { return x.Tensor == s.sum }) {
				all = append(all, device.Arg{Name: s.Param.Name, Tensor: s.sum})
			}
		}
	}
	return all
}

// lay moves what travels together to one memory. Where uses are kept apart, gradients are collected use by use.
func (b *Bucket) lay(apart bool) {
	b.weights.whole = b.memory(func(p *nn.Param) *device.Tensor { return p.W })
	b.masters = b.weights
	if p := b.Params[0]; p.Master != p.W {
		b.masters.whole = b.memory(func(p *nn.Param) *device.Tensor { return p.Master })
	}
	if !apart {
		b.grads = b.memory(func(p *nn.Param) *device.Tensor { return p.Grad })
	}
}

// memory lays a tensor of each parameter, one after another. That of a single one stays where it is.
func (b *Bucket) memory(of func(*nn.Param) *device.Tensor) *device.Buffer {
	first := of(b.Params[0])
	if len(b.Params) == 1 {
		return device.BufferOf(b.Params[0].Name, first)
	}
	m, at := device.NewBuffer(first.Format, b.n), 0
	for _, p := range b.Params {
		m.Lay(at, p.Name, of(p))
		at += p.Grad.Len()
	}
	return m
}

// segment finds the segments of the shard. Moments of a rank alone are shaped as their parameters; those of a shard have one dimension.
func (b *Bucket) segment(a *AdamW) {
	from := 0
	for _, p := range b.Params {
		lo, hi := max(b.lo-from, 0), min(b.hi-from, p.Grad.Len())
		if lo < hi {
			f, shape := p.Grad.Format, []int{hi - lo}
			if a.alone() || a.Replicated {
				shape = p.Grad.Shape()
			}
			s := &Segment{Param: p, place: p.Place.From(lo), Lo: lo, Hi: hi, same: a.shares(p).Same, counts: a.counts(p), at: from + lo - b.lo, M: device.NewTensor(f, shape...), V: device.NewTensor(f, shape...),
				Master: b.piece(p.Master, lo, hi), views: map[*device.Tensor]*device.Tensor{}}
			if s.w = s.Master; p.W != p.Master {
				s.w = b.piece(p.W, lo, hi)
			}
			b.Segments = append(b.Segments, s)
			b.weights.shard = append(b.weights.shard, device.Arg{Name: p.Name, Tensor: s.w})
			b.masters.shard = append(b.masters.shard, device.Arg{Name: p.Name, Tensor: s.Master})
		}
		from += p.Grad.Len()
	}
}

// piece is elements lo to hi of t. What nothing is gathered into is t itself, which the forward reads by the name of who wrote it.
func (b *Bucket) piece(t *device.Tensor, lo, hi int) *device.Tensor {
	if b.owners.Size() == 1 {
		return t
	}
	return t.View(lo, hi)
}

// sends is how often the bucket's gradients travel in a step: together, or by the canonical recipe use by use.
func (a *AdamW) sends(b *Bucket) int {
	n := 1
	if a.Canonical {
		for _, p := range b.Params {
			n = max(n, len(uses(p)))
		}
	}
	return n
}

// parcel is what a bucket sends of a use, and the label of the Call. Where no one else has a part of them, the gradients of a use are not laid
// together, and nil.
func (a *AdamW) parcel(dev *device.Device, b *Bucket, use int) (label string, grads *device.Buffer) {
	if a.Canonical {
		return a.collect(dev, b, use)
	}
	return b.label, b.grads
}

// land takes the sum of what was sent of a use, or this rank's shard of it.
func (a *AdamW) land(dev *device.Device, b *Bucket, use int, sum *device.Tensor) {
	if a.Canonical {
		b.landUse(dev, use, sum)
		return
	}
	b.land(sum)
}

// land takes the shard of the sum. Where no one else has a part of them, gradients stay where they are, each by its own name.
func (b *Bucket) land(shard *device.Tensor) {
	if shard == b.grads.Whole {
		for _, s := range b.Segments {
			s.sum = s.Param.Grad
		}
		return
	}
	b.shard = shard
	for _, s := range b.Segments {
		s.sum, s.from = shard, s.at
	}
}
