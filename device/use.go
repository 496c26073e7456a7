package device

import (
	"math/bits"
	"strconv"

	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/reduce"
)

// Use is the gradient of one use of a Param. Where a rank has experts that tokens of several data ranks come to, each of
// these sources has a sum of its own: on one rank all microbatches of the one would meet before those of the next.
type Use struct {
	sources []counter
}

// counter joins microbatches as a binary counter counts: two of one, then two of two. Of a power of two of microbatches
// that is the pairwise tree, in as many tensors as it is deep.
type counter struct {
	levels []*Tensor // level i holds the sum of 2ⁱ microbatches
	n      int       // microbatches of this step
}

// Total is the sum over the microbatches of the step, a power of two. A use with several sources has none without a
// Call: see Device.Total.
func (u *Use) Total() *Tensor {
	if len(u.sources) != 1 {
		panic("device: the sources of a use are not joined")
	}
	return u.sources[0].total()
}

func (c *counter) total() *Tensor {
	if bits.OnesCount(uint(c.n)) != 1 {
		panic("device: the microbatches of a use are not a power of two")
	}
	return c.levels[bits.TrailingZeros(uint(c.n))]
}

var (
	accumulateApart = &Kernel{Name: "accumulate", Run: Width(runAccumulateApart[float32], runAccumulateApart[float64])}
	joinSources     = &Kernel{Name: "join", Fixed: reduce.MustPlan("sources:pairwise/fp32"), Run: Width(runJoinSources[float32], runJoinSources[float64])}
)

// Total is the sum of a use over the microbatches of the step, then pairwise over its sources. Of one source it is there
// already, without a Call.
func (d *Device) Total(label string, u *Use) *Tensor {
	if len(u.sources) <= 1 {
		return u.Total()
	}
	c := d.Open(label, joinSources)
	for i := range u.sources {
		c.Read("source", u.sources[i].total())
	}
	y := c.Write("grad", c.In[0].Format, c.In[0].Shape()...)
	c.Do()
	return y
}

// AccumulateSources is Accumulate for a microbatch's gradients of several sources, which are kept apart.
func (d *Device) AccumulateSources(label string, p *Param, dw []*Tensor) {
	if !p.Apart {
		panic("device: sources are kept apart where uses are")
	}
	u := p.use(d.stamp())
	for i, x := range dw {
		if i > 0 {
			d.count(label+".source"+strconv.Itoa(i), p, u, i, x)
			continue
		}
		d.count(label, p, u, i, x)
	}
}

func (d *Device) stamp() int64 { return int64(d.step)<<20 | int64(d.micro) }

// use is the next use of p in a microbatch.
func (p *Param) use(stamp int64) *Use {
	if p.stamp != stamp || len(p.Uses) == 0 {
		p.used, p.stamp = 0, stamp
	}
	if p.used == len(p.Uses) {
		p.Uses = append(p.Uses, &Use{sources: make([]counter, 1)})
		if p.used == 0 {
			p.Uses[0].sources[0].levels = []*Tensor{p.Grad}
		}
	}
	p.used++
	return p.Uses[p.used-1]
}

// count adds a microbatch's gradient to its use's: it joins the level below as long as there is one.
func (d *Device) count(label string, p *Param, u *Use, source int, dw *Tensor) {
	for source >= len(u.sources) {
		u.sources = append(u.sources, counter{})
	}
	s := &u.sources[source]
	level := bits.TrailingZeros(^uint(s.n))
	c := d.Open(label, accumulateApart)
	c.Read("dw", dw)
	for _, below := range s.levels[:level] {
		c.Read("below", below)
	}
	if level == len(s.levels) {
		s.levels = append(s.levels, NewTensor(p.Grad.Format, p.Grad.Shape()...))
	}
	c.Update("grad", s.levels[level])
	s.n++
	c.Do()
}

func runAccumulateApart[T libm.Float](c *Call) {
	grad := Data[T](c.Out[0].Tensor)
	copy(grad, Data[T](c.In[0].Tensor))
	for i := range c.In[1:] {
		kernel.Add(grad, Data[T](c.In[i+1].Tensor), grad)
	}
}

func runJoinSources[T libm.Float](c *Call) {
	in := make([][]T, len(c.In))
	for i := range in {
		in[i] = Data[T](c.In[i].Tensor)
	}
	kernel.SumMembers(c.Fold("sources", len(in)), Data[T](c.Out[0].Tensor), in, 0)
}
