package optim

import (
	"strconv"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/parallel"
)

// Under the canonical recipe the bits of an update do not depend on the number of ranks:
//
//   - every use of a parameter has a gradient of its own, added over the ranks before the uses meet in call
//     order, since (a₀+b₀)+(a₁+b₁) is not (a₀+a₁)+(b₀+b₁);
//   - a bucket is a power of two of units, CanonicalRanks at least, so that each shard is a whole subtree of the sum of squares;
//   - each bucket's sum of squares travels by itself, and the buckets meet after the ranks.

// CanonicalRanks is the most data-parallel ranks of the canonical recipe.
const CanonicalRanks = 8

// unit is the elements of a bucket that are added in sequence.
const unit = 64

// NewCanonical is NewDistributed with bits that do not depend on the layout. It keeps the parameters' uses apart.
func NewCanonical(c Config, params []*device.Param, dp parallel.Member, bucket int) *Distributed {
	for _, p := range params {
		p.Apart = true
	}
	return newDistributed(c, params, dp, bucket, true)
}

// padded is the least bucket of a power of two of units that holds n elements.
func padded(n int) int {
	size := unit * CanonicalRanks
	for size < n {
		size *= 2
	}
	return size
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
		shard := d.dp.ReduceScatter(dev, label, b.packUse(dev, label, use))
		if use > 0 {
			shard = dev.Sum(label+".sum", b.shard, shard)
		}
		b.shard = shard
	}
}

// packUse lays the gradients of a use down where their parameters lie. What has no such use, or lies past the last parameter,
// is absent: −0.
func (b *Bucket) packUse(dev *device.Device, label string, use int) *device.Tensor {
	c := dev.Open(label+".pack", packKernel)
	at, from := make([]int, 0, len(b.Params)), 0
	for _, p := range b.Params {
		if use < len(p.Uses) {
			c.Read(p.Name, p.Uses[use].Total())
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

// normOfSums is the norm of all gradients: the buckets' sums of squares over the ranks, then over the buckets.
func (d *Distributed) normOfSums(dev *device.Device) *device.Tensor {
	c := dev.Open("local", packKernel)
	for _, s := range d.squares(dev) {
		c.Read("sum", s)
	}
	local := c.Write("sums", d.Buckets[0].shard.Format, len(d.Buckets))
	c.Do()

	all := d.dp.AllReduce(dev, "all", local)
	c = dev.Open("norm", normOfBuckets)
	c.Read("sums", all)
	norm := c.Write("norm", all.Format, 1)
	c.Do()
	return norm
}

func runNormOfBuckets[T libm.Float](c *device.Call) {
	sums := device.Data[T](c.In[0].Tensor)
	device.Data[T](c.Out[0].Tensor)[0] = root(kernel.Sum(c.Fold("buckets", len(sums)), sums, 1))
}
