package model

import (
	"slices"

	"firstbit/device"
	"firstbit/nn"
	"firstbit/state"
)

// expert is a weight of the experts; hidden is the dimension that expert-tensor parallelism cuts.
func (w *Weights) expert(name string, shape []int, hidden int) *nn.Param {
	p := w.param(name, linear, shape, cutOf(0, w.rank.EP()), cutOf(hidden, w.rank.ETP()))
	p.Expert = true
	w.join(p)
	w.use(p)
	return p
}

// part is a weight of which a rank has the part that the cut says.
func (w *Weights) part(name string, in initializer, shape []int, cut state.Cut) *nn.Param {
	p := w.param(name, in, shape, cut)
	w.join(p)
	w.use(p)
	return p
}

// whole is a weight that every rank has, and of whose tokens it has a part.
func (w *Weights) whole(name string, in initializer, shape ...int) *nn.Param {
	p := w.param(name, in, shape)
	p.Sequence = w.rank.TP().Size() > 1
	w.join(p)
	w.use(p)
	return p
}

// use notes that a place of the network uses a weight, unless it is that of a piece that was built before, for another microbatch.
func (w *Weights) use(p *nn.Param) {
	if !w.counted[w.building] {
		p.Used++
	}
}

// join adds a microbatch's gradient over the ranks with which that has to be done before microbatches meet.
func (w *Weights) join(p *nn.Param) {
	w.place(p)
	over := w.rank.Shares(p, w.canonical).Micro
	if over.Size() == 1 {
		return
	}
	p.Join = func(dev *device.Device, label string, dw *device.Tensor) *device.Tensor {
		return over.AllReduce(dev, label+".sum", dw)
	}
}

// param is the weight of a name; one that is there already is shared.
func (w *Weights) param(name string, in initializer, shape []int, cuts ...state.Cut) *nn.Param {
	if p := w.byName[name]; p != nil {
		return p
	}
	f := w.format
	if in.master {
		f = nn.MasterFormat(f)
	}
	cuts = slices.DeleteFunc(cuts, func(c state.Cut) bool { return c.Parts == 1 })
	p := nn.NewPart(name, f, in.decay, shape, cuts...)
	if w.canonical {
		p.Accumulator = new(nn.ByUse)
	}
	if in.linear {
		w.quantised(p)
	}
	w.params, w.initials, w.byName[name] = append(w.params, p), append(w.initials, in), p
	return p
}
