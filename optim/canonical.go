package optim

import (
	"strconv"

	"firstbit/device"
	"firstbit/nn"
)

// Under the canonical recipe the bits of an update do not depend on the layout:
//
//   - every use of a parameter has a gradient of its own, added over the ranks before the uses meet in call
//     order, since (a₀+b₀)+(a₁+b₁) is not (a₀+a₁)+(b₀+b₁);
//   - what the ranks that share a microbatch have of its gradient was added before microbatches met: parallel.Shares;
//   - the sum of the squares is exact.

// reduceUses adds the gradients of each use over the ranks, into shards, and then the uses.
func (a *AdamW) reduceUses(dev *device.Device, b *Bucket) {
	most := 0
	for _, p := range b.Params {
		most = max(most, len(uses(p)))
	}
	for use := range most {
		label := b.label
		if use > 0 {
			label += ".use" + strconv.Itoa(use)
		}
		a.reduceUse(dev, b, label, use)
	}
}

func uses(p *nn.Param) []*nn.Use { return p.Accumulator.(*nn.ByUse).Uses }

func (a *AdamW) reduceUse(dev *device.Device, b *Bucket, label string, use int) {
	b.totals = b.totals[:0]
	for _, p := range b.Params {
		var total *device.Tensor
		if use < len(uses(p)) {
			total = nn.Total(dev, label+"."+p.Name, uses(p)[use])
		}
		b.totals = append(b.totals, total)
	}
	var shard *device.Tensor
	if b.group.Size() > 1 {
		shard = b.group.ReduceScatter(dev, label, b.collected(use))
	}
	for i, s := range b.Segments {
		if use >= len(uses(s.Param)) {
			continue
		}
		before := s.gradient()
		if s.sum, s.from = shard, s.at; shard == nil { // the segments are the parameters, and every total is its own sum
			s.sum = b.totals[i]
		}
		if use > 0 {
			s.sum = nn.Sum(dev, label+"."+s.Param.Name+".sum", before, s.gradient())
		}
	}
}

// collected lays the totals of a use where their parameters lie. What is summed in the gaps is nobody's.
func (b *Bucket) collected(use int) *device.Buffer {
	for len(b.uses) <= use {
		b.uses = append(b.uses, device.NewBuffer(b.Params[0].Grad.Format, b.n))
	}
	x, at := b.uses[use], 0
	x.Clear()
	for i, p := range b.Params {
		if b.totals[i] != nil {
			x.Hold(at, p.Name, b.totals[i])
		}
		at += p.Grad.Len()
	}
	return x
}
