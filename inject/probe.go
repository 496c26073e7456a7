package inject

import (
	"errors"

	"firstbit/device"
	"firstbit/trace"
	"firstbit/tune"
)

var probeKind = &kind{Name: "probe", noun: "Call", phase: tune.StepPhases, Example: "probe@layers.1.attn.attention as=blind",
	does: "a mistake of the tracer, in a run that is traced. uninit: it hashes the memory of an output before anything is written there; pending: the destination of a collective before the wait; " +
		"copy: a copy of an output that is still under way; blind: it has no record of the Call, but of its kernel; " +
		"sync: it waits for all ranks at the Call, where then everything arrives in order; draw: it draws once from every random stream before the Call",
	make: func(*Selector) (action, []field) {
		p := &probe{}
		as := choice("as", &p.as, "uninit", "pending", "copy", "blind", "sync", "draw")
		return p, []field{given(as)}
	}}

// probe is a tracer that errs.
type probe struct {
	everyCall
	as string
}

func (p *probe) check(r Run, _ bool) error {
	if !r.Traced {
		return errors.New("is a mistake of a tracer: needs --trace DIR")
	}
	return nil
}

// Looks tells whether the fault is a tracer's.
func (f *Fault) Looks() bool {
	_, ok := f.action.(*probe)
	return ok
}

// watch does what a tracer does to the run that it watches.
func (p *probe) watch(f *Fault, c *device.Call, selected bool, next device.Runner) {
	if i := f.in; selected && !i.busy && i.Watched != nil && i.Watched(c) {
		switch p.as {
		case "sync":
			c.InOrder = true
			defer func() { c.InOrder = false }()
			f.act(true)
		case "draw":
			step, micro, phase := i.dev.Where()
			i.busy = true
			for _, s := range i.streams {
				drawFrom(i.dev.In("probe"), s)
				f.act(true)
			}
			i.busy = false
			i.dev.At(step, micro, phase)
		}
	}
	next(c)
}

// Lens is what a tracer that errs sees through; nil: it sees what is there.
func (i *Injector) Lens() trace.Lens {
	for _, f := range i.Faults {
		if _, ok := f.action.(*probe); ok {
			return lens{i}
		}
	}
	return nil
}

type lens struct{ *Injector }

// Sees shows what the faults have the tracer see of a Call.
func (l lens) Sees(c *device.Call, ran bool) (s trace.Sight) {
	for _, f := range l.Faults {
		p, ok := f.action.(*probe)
		if !ok || !f.OnRank(l.Rank, l.At) || !f.InPhase(c.ID.Phase) || !p.on(c) || !f.names(c) || !f.Now(c) {
			continue
		}
		if p.sees(&s, c, ran) {
			f.act(true)
		}
	}
	return s
}

// sees tells whether there was something to see.
func (p *probe) sees(s *trace.Sight, c *device.Call, ran bool) bool {
	switch {
	case !ran && p.as == "uninit" && len(c.Out) > 0:
		s.More = &trace.Look{Name: c.Label + ".empty", Flags: device.Uninit, Out: []device.Arg{{Name: "y", Tensor: garbage(c, c.Out[0].Tensor)}}}
	case ran && p.as == "copy" && len(c.Out) > 0:
		host := fill(same(c.Out[0].Tensor), 0)
		inFlight(c, host, c.Out[0].Tensor)
		s.More = &trace.Look{Name: c.Label + ".copy", Flags: device.NonBlocking, In: c.Out[:1], Out: []device.Arg{{Name: "host", Tensor: host}}}
	case ran && p.as == "pending" && c.Flags&device.AsyncPending != 0 && c.Lands != nil:
		there := same(c.Lands)
		inFlight(c, there, c.Out[0].Tensor)
		s.Outs = []device.Arg{{Name: c.Out[0].Name, Tensor: there}}
	case ran && p.as == "blind":
		s.None = true
	default:
		return false
	}
	return true
}

// inFlight puts the parts of what is under way that are there already, which the Schedule chooses, where they are to come.
func inFlight(c *device.Call, to, from *device.Tensor) {
	rows, width := rowsOf(from)
	for r, is := range choose(c, "probe", rows) {
		if is {
			move(to, from, r*width, width)
		}
	}
}

// garbage is what lies in memory that was given away before: no two runs of a program find the same.
func garbage(c *device.Call, t *device.Tensor) *device.Tensor {
	g := device.NewTensor(t.Format, t.Shape()...)
	left := c.Arrival("empty", mostParts)
	for i := range g.Len() {
		g.Set(i, float64(left[i%len(left)]))
	}
	return g
}
