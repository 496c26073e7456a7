package optim

import (
	"strconv"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/parallel"
)

// Under the canonical recipe the bits of an update do not depend on the layout:
//
//   - every use of a parameter has a gradient of its own, added over the ranks before the uses meet in call
//     order, since (a₀+b₀)+(a₁+b₁) is not (a₀+a₁)+(b₀+b₁);
//   - what the ranks that share a microbatch have of its gradient was added before microbatches met: device.Param's Join;
//   - the sum of the squares is exact.

// NewCanonical is NewDistributed with bits that do not depend on the layout. It keeps the parameters' uses apart.
func NewCanonical(c Config, params []*device.Param, rank parallel.Rank, bucket int) *Distributed {
	for _, p := range params {
		p.Apart = true
	}
	return newDistributed(c, params, rank, bucket, true)
}

// canonicalGroup is the ranks with other microbatches. Those with parts of one have the same sums already: of dense parameters, those of
// other parts of its sequences; of experts, those with the same ones where a microbatch has several.
func (d *Distributed) canonicalGroup(p *device.Param) parallel.Member {
	if l := d.rank.Layout(); p.Expert && l.EP*l.ETP >= l.TP*l.CP {
		return d.rank.EDP()
	}
	return d.rank.DP()
}

// reduceUses adds the gradients of each use over the ranks, into shards, and then the uses.
func (d *Distributed) reduceUses(dev *device.Device, b *Bucket) {
	uses := 0
	for _, p := range b.Params {
		uses = max(uses, len(p.Uses))
	}
	for use := range uses {
		label := b.label
		if use > 0 {
			label += ".use" + strconv.Itoa(use)
		}
		shard := b.group.ReduceScatter(dev, label, b.packUse(dev, label, use))
		if use > 0 {
			shard = dev.Sum(label+".sum", b.shard, shard)
		}
		b.shard = shard
	}
}

// packUse lays the gradients of a use down where their parameters lie. What has no such use is absent: −0.
func (b *Bucket) packUse(dev *device.Device, label string, use int) *device.Tensor {
	var totals []*device.Tensor
	for _, p := range b.Params {
		if use < len(p.Uses) {
			totals = append(totals, dev.Total(label+"."+p.Name, p.Uses[use]))
		}
	}
	c := dev.Open(label+".pack", packKernel)
	at, from := make([]int, 0, len(b.Params)), 0
	for _, p := range b.Params {
		if use < len(p.Uses) {
			c.Read(p.Name, totals[len(at)])
			at = append(at, from)
		}
		from += p.Grad.Len()
	}
	bucket := c.Write("bucket", b.Params[0].Grad.Format, b.n)
	c.Body = func(c *device.Call) {
		y := c.Out[0].Tensor
		for i := range y.F32() {
			y.F32()[i] = kernel.Negzero[float32]()
		}
		for i := range y.F64() {
			y.F64()[i] = kernel.Negzero[float64]()
		}
		for i := range c.In {
			y.CopyAt(at[i], c.In[i].Tensor)
		}
	}
	c.Do()
	return bucket
}
