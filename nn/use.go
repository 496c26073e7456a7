package nn

import (
	"math/bits"
	"strconv"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/reduce"
)

// ByUse keeps a gradient for each use of a step, so that they can be added over microbatches and ranks before they meet.
type ByUse struct {
	Uses []*Use

	used int    // of the microbatch at hand
	at   [2]int // which step and microbatch that is
}

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
	b, ok := p.Accumulator.(*ByUse)
	if !ok {
		panic("nn: sources are kept apart where uses are")
	}
	u := b.use(d, p)
	for i, x := range dw {
		if i > 0 {
			u.add(d, label+".source"+strconv.Itoa(i), p, i, x)
			continue
		}
		u.add(d, label, p, i, x)
	}
	p.heard()
}

func (b *ByUse) add(d *device.Device, label string, p *Param, dw *device.Tensor) {
	b.use(d, p).add(d, label, p, 0, dw)
}

func (b *ByUse) restart() {
	for _, u := range b.Uses {
		for i := range u.sources {
			u.sources[i].n = 0
		}
	}
}

// use is the next use of p in the microbatch at hand.
func (b *ByUse) use(d *device.Device, p *Param) *Use {
	step, micro, _ := d.Where()
	if at := [2]int{step, micro}; b.at != at || len(b.Uses) == 0 {
		b.used, b.at = 0, at
	}
	if b.used == len(b.Uses) {
		b.Uses = append(b.Uses, &Use{sources: make([]counter, 1)})
		if b.used == 0 {
			b.Uses[0].sources[0].levels = []*device.Tensor{p.Grad}
		}
	}
	b.used++
	return b.Uses[b.used-1]
}

// add adds a microbatch's gradient of a source: it joins the level below as long as there is one.
func (u *Use) add(d *device.Device, label string, p *Param, source int, dw *device.Tensor) {
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
