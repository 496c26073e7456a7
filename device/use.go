package device

import (
	"math/bits"

	"firstbit/kernel"
	"firstbit/libm"
)

// Use is the gradient of one use of a Param, its microbatches joined as a binary counter counts: two of one, then two of two. Of a
// power of two of microbatches that is the pairwise tree, in as many tensors as it is deep.
type Use struct {
	levels []*Tensor // level i holds the sum of 2ⁱ microbatches
	n      int       // microbatches of this step
}

// Total is the sum over the microbatches of the step, a power of two.
func (u *Use) Total() *Tensor {
	if bits.OnesCount(uint(u.n)) != 1 {
		panic("device: the microbatches of a use are not a power of two")
	}
	return u.levels[bits.TrailingZeros(uint(u.n))]
}

// use is the next use of p in a microbatch.
func (p *Param) use(stamp int64) *Use {
	if p.stamp != stamp || len(p.Uses) == 0 {
		p.used, p.stamp = 0, stamp
	}
	if p.used == len(p.Uses) {
		p.Uses = append(p.Uses, new(Use))
		if p.used == 0 {
			p.Uses[0].levels = []*Tensor{p.Grad}
		}
	}
	p.used++
	return p.Uses[p.used-1]
}

var accumulateApart = &Kernel{Name: "accumulate", Run: Width(runAccumulateApart[float32], runAccumulateApart[float64])}

// accumulateApart adds a microbatch's gradient to its use's: it joins the level below as long as there is one.
func (d *Device) accumulateApart(label string, p *Param, dw *Tensor) {
	u := p.use(int64(d.step)<<20 | int64(d.micro))
	level := bits.TrailingZeros(^uint(u.n))
	c := d.Open(label, accumulateApart)
	c.Read("dw", dw)
	for _, below := range u.levels[:level] {
		c.Read("below", below)
	}
	if level == len(u.levels) {
		u.levels = append(u.levels, NewTensor(p.Grad.Format, p.Grad.Shape()...))
	}
	c.Update("grad", u.levels[level])
	u.n++
	c.Do()
}

func runAccumulateApart[T libm.Float](c *Call) {
	grad := Data[T](c.Out[0].Tensor)
	copy(grad, Data[T](c.In[0].Tensor))
	for i := range c.In[1:] {
		kernel.Add(grad, Data[T](c.In[i+1].Tensor), grad)
	}
}
