package inject

import (
	"slices"

	"firstbit/device"
	"firstbit/tune"
)

var aliasKind = &kind{Name: "alias", noun: "Call", phase: tune.EveryPhase, Example: "alias@*.moe.dispatch.a2a with=*.moe.combine.a2a.dx",
	does: "the first outputs of the Calls that either names lie in one memory, in all phases, those of initialisation and restores too",
	make: func(*Selector) (action, []field) {
		a := &alias{}
		return a, []field{given(word("with", "GLOB", &a.with))}
	}}

// alias is a memory that outputs share.
type alias struct {
	everyCall
	with    string // GLOB of the other Calls
	memory  *device.Tensor
	tenants []*device.Tensor
}

func (a *alias) finish(f *Fault) error {
	f.Globs = append(f.Globs, a.with)
	return nil
}

// prepare lays the output of a Call that is about to run where those of the others lie. A Call alone in the memory is not changed.
func (a *alias) prepare(f *Fault, c *device.Call, now bool) {
	if len(c.Out) == 0 {
		return
	}
	t := c.Out[0].Tensor
	if !now {
		a.leave(t)
		return
	}
	if a.memory != nil && a.memory.Format != t.Format {
		f.fail(c, "writes %s, and %s lies in the memory", t.Format, a.memory.Format)
		return
	}
	if a.memory == nil || a.memory.Len() < t.Len() {
		a.grow(t)
	}
	if !slices.Contains(a.tenants, t) {
		a.tenants = append(a.tenants, t)
	}
	t.Alias(a.memory)
	if len(a.tenants) > 1 {
		f.act(true)
	}
}

// leave moves t out of the memory, with what it holds, once the fault's steps are over.
func (a *alias) leave(t *device.Tensor) {
	i := slices.Index(a.tenants, t)
	if i < 0 {
		return
	}
	if a.tenants = slices.Delete(a.tenants, i, i+1); len(a.tenants) == 0 {
		a.memory = nil
	}
	own := device.NewTensor(t.Format, t.Len())
	own.CopyAt(0, t)
	t.Alias(own)
}

// grow makes room for t: the memory holds what t does, and over it all that lies there already, which moves along.
func (a *alias) grow(t *device.Tensor) {
	old := a.memory
	a.memory = device.NewTensor(t.Format, t.Len())
	a.memory.CopyAt(0, t)
	if old == nil {
		return
	}
	a.memory.CopyAt(0, old)
	for _, x := range a.tenants {
		x.Alias(a.memory)
	}
}
