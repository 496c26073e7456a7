package nn

import (
	"math/bits"
	"strconv"

	"firstbit/device"
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
	levels []*device.Tensor // level i holds the sum of 2ⁱ microbatches
	n      int              // microbatches of this step
}

// Total is the sum over the microbatches of the step, a power of two. A use with several sources has none without a
// Call: see Device.Total.
func (u *Use) Total() *device.Tensor {
	if len(u.sources) != 1 {
		panic("nn: the sources of a use are not joined")
	}
	return u.sources[0].total()
}

func (c *counter) total() *device.Tensor {
	if bits.OnesCount(uint(c.n)) != 1 {
		panic("nn: the microbatches of a use are not a power of two")
	}
	return c.levels[bits.TrailingZeros(uint(c.n))]
}

var (
	accumulate = &device.Kernel{Name: "accumulate", In: device.Names("dw grad?"), Out: device.Names("grad"),
		Run: device.Width(runAccumulate[float32], runAccumulate[float64])}
	accumulateApart = &device.Kernel{Name: "accumulate", In: device.Names("dw below..."), Out: device.Names("grad"),
		Run: device.Width(runAccumulateApart[float32], runAccumulateApart[float64])}
	joinSources = &device.Kernel{Name: "join", In: device.Names("source..."), Out: device.Names("grad"),
		Fixed: reduce.MustPlan("sources:pairwise/fp32"), Run: device.Width(runJoinSources[float32], runJoinSources[float64])}
)

// Total is the sum of a use over the microbatches of the step, then pairwise over its sources. Of one source it is there
// already, without a Call.
func Total(d *device.Device, label string, u *Use) *device.Tensor {
	if len(u.sources) <= 1 {
		return u.Total()
	}
	c := d.Open(label, joinSources)
	for i := range u.sources {
		c.Read("source", u.sources[i].total())
	}
	first := u.sources[0].total()
	y := c.Write("grad", first.Format, first.Shape()...)
	c.Do()
	return y
}

// AccumulateSources is Accumulate for a microbatch's gradients of several sources, which are kept apart.
func AccumulateSources(d *device.Device, label string, p *Param, dw []*device.Tensor) {
	if !p.Apart {
		panic("nn: sources are kept apart where uses are")
	}
	u := p.use(d)
	for i, x := range dw {
		if i > 0 {
			countByUse(d, label+".source"+strconv.Itoa(i), p, u, i, x)
			continue
		}
		countByUse(d, label, p, u, i, x)
	}
}

// use is the next use of p in the microbatch at hand.
func (p *Param) use(d *device.Device) *Use {
	step, micro, _ := d.Where()
	if at := [2]int{step, micro}; p.at != at || len(p.Uses) == 0 {
		p.used, p.at = 0, at
	}
	if p.used == len(p.Uses) {
		p.Uses = append(p.Uses, &Use{sources: make([]counter, 1)})
		if p.used == 0 {
			p.Uses[0].sources[0].levels = []*device.Tensor{p.Grad}
		}
	}
	p.used++
	return p.Uses[p.used-1]
}

// countByUse adds a microbatch's gradient to its use's: it joins the level below as long as there is one.
func countByUse(d *device.Device, label string, p *Param, u *Use, source int, dw *device.Tensor) {
	for source >= len(u.sources) {
		u.sources = append(u.sources, counter{})
	}
	s := &u.sources[source]
	level := bits.TrailingZeros(^uint(s.n))
	c := d.Open(label, accumulateApart)
	c.Weight = &p.Place
	c.Read("dw", dw)
	for _, below := range s.levels[:level] {
		c.Read("below", below)
	}
	if level == len(s.levels) {
		s.levels = append(s.levels, device.NewTensor(p.Grad.Format, p.Grad.Shape()...))
	}
	c.Update("grad", s.levels[level])
	s.n++
	c.Do()
}

func runAccumulateApart[T libm.Float](c *device.Call) {
	grad := device.Out[T](c, "grad")
	copy(grad, device.In[T](c, "dw"))
	for _, below := range c.Inputs("below") {
		Add(grad, device.Data[T](below.Tensor), grad)
	}
}

func runJoinSources[T libm.Float](c *device.Call) {
	sources := c.Inputs("source")
	in := make([][]T, len(sources))
	for i, source := range sources {
		in[i] = device.Data[T](source.Tensor)
	}
	kernel.SumMembers(c.Fold("sources", len(in)), device.Out[T](c, "grad"), in, 0)
}
