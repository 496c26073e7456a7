package nn

import (
	"strconv"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/reduce"
)

// ByUse keeps a gradient for each use of a step, so that they can be added over microbatches and ranks before they meet.
type ByUse struct {
	Uses []*Use

	// First is the number of the first of the step's microbatches whose gradients come here, Micros how many each source has.
	First, Micros int

	used int    // of the microbatch at hand
	at   [2]int // which step and microbatch that is
}

// Use is the gradient of one use of a Param. Where a rank has experts that tokens of several data ranks come to, each of
// these sources has a sum of its own: on one rank all microbatches of the one would meet before those of the next.
type Use struct {
	sources []counter
}

// counter joins microbatches as a binary counter counts: two of one, then two of two, where the first is even among all microbatches of the step. A
// power of two of them that begins at a multiple of it ends in one sum, which is the pairwise tree; another share in those of reduce.Subtrees, in
// twice as many tensors as the tree is deep.
type counter struct {
	levels [][2]*device.Tensor // level i has the sums of 2ⁱ microbatches: there are two at a time at most
	nodes  []node              // as they follow one another
	first  int                 // of the step's microbatches
	n      int                 // microbatches of this step
}

// node is the sum of 2^level microbatches from lo on.
type node struct {
	lo, level int
	sum       *device.Tensor
}

func (n node) size() int { return 1 << n.level }

// Total is the sum over the microbatches of the step, which are one subtree. A use with several sources has none without a
// Call: see the function.
func (u *Use) Total() *device.Tensor {
	if len(u.sources) != 1 || len(u.sources[0].nodes) != 1 {
		panic("nn: the sums of a use are not joined")
	}
	return u.sources[0].nodes[0].sum
}

// nodes are the sums of all sources.
func (u *Use) nodes() (all []node) {
	for i := range u.sources {
		all = append(all, u.sources[i].nodes...)
	}
	if len(all) == 0 {
		panic("nn: a use without a microbatch of this step")
	}
	return all
}

var (
	accumulateApart = &device.Kernel{Name: "accumulate", In: device.Names("dw below..."), Out: device.Names("grad"),
		Run: device.Width(runAccumulateApart[float32], runAccumulateApart[float64])}
	joinSources = &device.Kernel{Name: "join", In: device.Names("source..."), Scalars: device.Names("run..."), Out: device.Names("grad"),
		Fixed: reduce.MustPlan("sources:pairwise/fp32"), Run: device.Width(runJoinSources[float32], runJoinSources[float64])}
)

// Total is the sum of a use over the microbatches of the step, those of one source before those of the next. What is one sum already is there
// without a Call.
func Total(d *device.Device, label string, u *Use) *device.Tensor { return join(d, label, u.nodes()) }

// Subtrees are the sums of a use over the largest subtrees of the step's microbatches that the rank has.
func Subtrees(d *device.Device, label string, u *Use) (subtrees []*device.Tensor) {
	nodes := u.nodes()
	last := nodes[len(nodes)-1]
	for i, r := range reduce.Subtrees(nodes[0].lo, last.lo+last.size()) {
		n := 0
		for n < len(nodes) && nodes[n].lo < r.Lo+r.N {
			n++
		}
		name := label
		if i > 0 {
			name += ".subtree" + strconv.Itoa(i)
		}
		subtrees, nodes = append(subtrees, join(d, name, nodes[:n])), nodes[n:]
	}
	return subtrees
}

// join adds sums of microbatches that follow one another and are a subtree together, or all of the step. Where they are not as many each, the Call
// says how many.
func join(d *device.Device, label string, nodes []node) *device.Tensor {
	if len(nodes) == 1 {
		return nodes[0].sum
	}
	c := d.Open(label, joinSources)
	equal := true
	for _, n := range nodes {
		c.Read("source", n.sum)
		equal = equal && n.level == nodes[0].level
	}
	for i := 0; i < len(nodes) && !equal; i++ {
		c.ReadScalar("run", float64(nodes[i].size()))
	}
	y := c.Write("grad", nodes[0].sum.Format, nodes[0].sum.Shape()...)
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
			u.sources[i].n, u.sources[i].nodes = 0, u.sources[i].nodes[:0]
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
		b.Uses = append(b.Uses, &Use{sources: []counter{{first: b.First}}})
		if b.used == 0 {
			b.Uses[0].sources[0].levels = [][2]*device.Tensor{{p.Grad}}
		}
	}
	b.used++
	return b.Uses[b.used-1]
}

// add adds a microbatch's gradient of a source: it joins the sum before it as long as that is its left neighbour in the tree.
func (u *Use) add(d *device.Device, label string, p *Param, source int, dw *device.Tensor) {
	for source >= len(u.sources) {
		u.sources = append(u.sources, counter{first: u.sources[0].first + len(u.sources)*p.Accumulator.(*ByUse).Micros})
	}
	s := &u.sources[source]
	c := d.Open(label, accumulateApart)
	c.Weight = &p.Place
	c.Read("dw", dw)
	level, k := 0, len(s.nodes)
	for k > 0 && s.nodes[k-1].level == level && s.nodes[k-1].lo>>level&1 == 0 {
		k--
		c.Read("below", s.nodes[k].sum)
		level++
	}
	lo := s.first + s.n + 1 - 1<<level
	s.nodes = append(s.nodes[:k], node{lo, level, s.free(p, s.nodes[:k], level)})
	c.Update("grad", s.nodes[k].sum)
	s.n++
	c.Do()
}

// free is a tensor for a sum of a level that none of the nodes has.
func (s *counter) free(p *Param, nodes []node, level int) *device.Tensor {
	for level >= len(s.levels) {
		s.levels = append(s.levels, [2]*device.Tensor{})
	}
	which := 0
	for _, n := range nodes {
		if n.sum == s.levels[level][0] && n.level == level {
			which = 1
		}
	}
	if s.levels[level][which] == nil {
		s.levels[level][which] = device.NewTensor(p.Grad.Format, p.Grad.Shape()...)
	}
	return s.levels[level][which]
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
	f := kernel.Fold{}
	if len(c.Scalars) == 0 {
		f = c.Fold("sources", len(in))
	} else {
		runs, lo := make([]reduce.Run, len(in)), 0
		for i, n := range c.Scalars {
			runs[i] = reduce.Run{Lo: lo, N: int(n.Value)} // fits: a count of roots on a rank
			lo += runs[i].N
		}
		f = c.FoldRuns("sources", runs)
	}
	kernel.SumMembers(f, device.Out[T](c, "grad"), in, 0)
}
