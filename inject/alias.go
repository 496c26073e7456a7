package inject

import (
	"slices"

	"firstbit/device"
)

// alias lays the output of a Call that is about to run where those of the others lie. A Call alone in the memory is not changed.
func (f *Fault) alias(c *device.Call) {
	if f.Kind != "alias" || c.Kind == device.Module || len(c.Out) == 0 || !f.names(c) {
		return
	}
	t := c.Out[0].Tensor
	if !f.Steps.Has(c.ID.Step) {
		f.leave(t)
		return
	}
	if f.memory != nil && f.memory.Format != t.Format {
		f.fail(c, "writes %s, and %s lies in the memory", t.Format, f.memory.Format)
		return
	}
	if f.memory == nil || f.memory.Len() < t.Len() {
		f.grow(t)
	}
	if !slices.Contains(f.tenants, t) {
		f.tenants = append(f.tenants, t)
	}
	t.Alias(f.memory)
	if len(f.tenants) > 1 {
		f.act(true)
	}
}

// leave moves t out of the memory, with what it holds, once the fault's steps are over.
func (f *Fault) leave(t *device.Tensor) {
	i := slices.Index(f.tenants, t)
	if i < 0 {
		return
	}
	if f.tenants = slices.Delete(f.tenants, i, i+1); len(f.tenants) == 0 {
		f.memory = nil
	}
	own := device.NewTensor(t.Format, t.Len())
	own.CopyAt(0, t)
	t.Alias(own)
}

// grow makes room for t: the memory holds what t does, and over it all that lies there already, which moves along.
func (f *Fault) grow(t *device.Tensor) {
	old := f.memory
	f.memory = device.NewTensor(t.Format, t.Len())
	f.memory.CopyAt(0, t)
	if old == nil {
		return
	}
	f.memory.CopyAt(0, old)
	for _, x := range f.tenants {
		x.Alias(f.memory)
	}
}
