package run

import (
	"fmt"
	"slices"
	"sync"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/reduce"
)

// probe is a Call of a run, on all ranks that make it together, which is run again and again on operands and by plans of somebody else's.
type probe struct {
	members []*probed // by rank
	self    int       // the member whose goroutine asks
	sums    map[string]int
	plan    reduce.Plan // that the run had for it
	asked   int         // questions
	err     error
}

// probed is one rank's part of a probe.
type probed struct {
	rank    int
	call    *device.Call
	next    device.Runner
	in      []*device.Tensor // what the Call reads while it is asked
	given   [][]float32      // what it read in the run; nil: whole numbers, or fp64
	plan    reduce.Plan
	work    chan struct{}
	done    chan any // what it panicked with; nil: it did not
	restore func()
}

// address is an element of an operand of a rank's.
type address struct{ member, input, element int }

// attach puts operands of the probe's own in the place of the Call's, which any float32 may be in, and outputs that round nothing. What
// a collective adds lies where others know it to be, and keeps its formats.
func attach(rank int, c *device.Call, next device.Runner) *probed {
	m := &probed{rank: rank, call: c, next: next, plan: c.Plan, work: make(chan struct{}), done: make(chan any)}
	in, out := slices.Clone(c.In), slices.Clone(c.Out)
	own := map[*device.Tensor]*device.Tensor{}
	fresh := func(t *device.Tensor, wide bool) *device.Tensor {
		if own[t] == nil {
			f := t.Format
			if wide && t.F32() != nil && f.Bits() > 8 {
				f = lowp.FP32
			}
			n := device.NewTensor(f, t.Shape()...)
			n.From = t.From
			copy(n.F32(), t.F32())
			copy(n.F64(), t.F64())
			copy(n.I32(), t.I32())
			own[t] = n
		}
		return own[t]
	}
	collective := c.Kind == device.Collective
	for i, a := range c.In {
		var given []float32
		if a.F32() != nil {
			given = slices.Clone(a.F32())
		}
		m.given = append(m.given, given)
		if !collective {
			c.In[i].Tensor = fresh(a.Tensor, false)
		}
		m.in = append(m.in, c.In[i].Tensor)
	}
	var was [][]float32
	for i, a := range c.Out {
		was = append(was, slices.Clone(a.F32()))
		if !collective {
			c.Out[i].Tensor = fresh(a.Tensor, true)
		}
	}
	m.restore = func() {
		copy(c.In, in)
		copy(c.Out, out)
		for i := range out { // those of collectives; an input in the same place has the last word
			copy(out[i].F32(), was[i])
		}
		for i := range in {
			copy(in[i].F32(), m.given[i])
		}
		c.Plan, c.Leaves = m.plan, nil
	}
	return m
}

// serve runs the Call as often as it is asked for.
func (m *probed) serve() {
	for range m.work {
		m.done <- m.once()
	}
}

// once runs the Call; what it panics with is an answer.
func (m *probed) once() (panicked any) {
	defer func() { panicked = recover() }()
	m.next(m.call)
	return nil
}

// operands are values for the operands of every member, by input; nil: as the run had them.
type operands [][][]float32

// ask runs the Call by a plan on operands with some elements set.
func (p *probe) ask(plan reduce.Plan, base operands, at []address, x []float32) {
	p.asked++
	for r, m := range p.members {
		m.call.Plan = plan
		for i, t := range m.in {
			from := m.given[i]
			if base != nil && base[r][i] != nil {
				from = base[r][i]
			}
			copy(t.F32(), from)
		}
	}
	for i, a := range at {
		p.members[a.member].in[a.input].F32()[a.element] = x[i]
	}
	for i, m := range p.members {
		if i != p.self {
			m.work <- struct{}{}
		}
	}
	panicked := p.members[p.self].once()
	for i, m := range p.members {
		if i == p.self {
			continue
		}
		if other := <-m.done; panicked == nil {
			panicked = other
		}
	}
	if panicked != nil && p.err == nil {
		p.err = fmt.Errorf("%s: %v", p.members[0].call.ID.Path, panicked)
	}
}

// written is the bits of all that the Call wrote last, or of some of it.
func (p *probe) written(some []int) (bits []uint32) {
	if some == nil {
		for _, m := range p.members {
			for _, a := range m.call.Out {
				for _, v := range a.F32() {
					bits = append(bits, lowp.FP32.Encode(v))
				}
			}
		}
		return bits
	}
	next, from := 0, 0
	for _, m := range p.members {
		for _, a := range m.call.Out {
			x := a.F32()
			for ; next < len(some) && some[next]-from < len(x); next++ {
				bits = append(bits, lowp.FP32.Encode(x[some[next]-from]))
			}
			from += len(x)
		}
	}
	return bits
}

// leaves is how many values each sum of the plan adds; of several sums of a name, the most.
func (p *probe) leaves() map[string]int {
	if p.sums == nil {
		p.sums = map[string]int{}
		for _, m := range p.members { // the one that adds for all tells
			m.call.Leaves = func(s device.Summed) { p.sums[s.Name] = max(p.sums[s.Name], s.N) }
		}
		p.ask(p.plan, nil, nil, nil)
		for _, m := range p.members {
			m.call.Leaves = nil
		}
	}
	return p.sums
}

// Probing are the Calls of a step that are to be probed, as ranks come to them.
type probing struct {
	wants func(rank int, c *device.Call) bool
	of    func(p *probe) // asks

	mu      sync.Mutex
	waiting map[string]*probe // of groups whose members have not all come
}

// middleware is a rank's.
func (g *probing) middleware(rank int) device.Middleware {
	return func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			if c.Kind != device.Module && g.wants(rank, c) {
				g.join(rank, c, next)
			}
			next(c)
		}
	}
}

// join has the last rank of a group that comes ask, and the others run what they are asked.
func (g *probing) join(rank int, c *device.Call, next device.Runner) {
	size := 1
	if c.Kind == device.Collective {
		size = int(c.Scalar("ranks")) // fits: a number of ranks
	}
	key := fmt.Sprintf("%s %s %s", c.ID.Phase, c.ID.Path, c.Group)
	m := attach(rank, c, next)
	defer m.restore()
	if size == 1 {
		g.of(&probe{members: []*probed{m}, plan: c.Plan})
		return
	}
	g.mu.Lock()
	p := g.waiting[key]
	if p == nil {
		p = &probe{plan: c.Plan}
		g.waiting[key] = p
	}
	p.members = append(p.members, m)
	last := len(p.members) == size
	if last {
		delete(g.waiting, key)
	}
	g.mu.Unlock()
	if !last {
		m.serve()
		return
	}
	slices.SortFunc(p.members, func(a, b *probed) int { return a.rank - b.rank })
	p.self = slices.Index(p.members, m)
	g.of(p)
	for _, other := range p.members {
		close(other.work)
	}
}
