package inject

import (
	"bytes"

	"firstbit/device"
)

// history is what Calls wrote last, by phase and path: microbatches that are under way at the same time are one.
type history map[uint64][]*device.Tensor

// keep keeps what a Call has written.
func (h *history) keep(c *device.Call) {
	if *h == nil {
		*h = history{}
	}
	kept := make([]*device.Tensor, len(c.Out))
	for i, out := range c.Out {
		kept[i] = same(out.Tensor)
	}
	(*h)[c.Key()] = kept
}

// last is what an output of a Call would be if it had not been written: what the Call wrote there last, zero before. What lies in an input is
// updated in place, and is as it was before the Call.
func (h history) last(c *device.Call, i int, before *device.Tensor) *device.Tensor {
	t := c.Out[i].Tensor
	old := device.NewTensor(t.Format, t.Shape()...)
	if kept := h[c.Key()]; i < len(kept) && kept[i].Format == t.Format {
		n := min(old.Len(), kept[i].Len()) // of rows that are routed there are others each time
		move(old, kept[i], 0, n)
	}
	each(t, c.In, func(at, n int) { move(old, before, at, n) })
	return old
}

// outputs are copies of what lies where a Call writes.
func outputs(c *device.Call) (copies []*device.Tensor) {
	for _, out := range c.Out {
		copies = append(copies, same(out.Tensor))
	}
	return copies
}

// each finds what of a tensor lies in the memory of others: n elements from one on.
func each(t *device.Tensor, others []device.Arg, do func(at, n int)) {
	lo, hi := t.Span()
	if lo == hi {
		return
	}
	size := (hi - lo) / uintptr(t.Len())
	for _, x := range others {
		from, to := x.Span()
		if from, to = max(from, lo), min(to, hi); from < to {
			do(int((from-lo)/size), int((to-from)/size))
		}
	}
}

// meets tells whether two lists of tensors share memory.
func meets(a, b []device.Arg) bool {
	shared := false
	for _, x := range a {
		each(x.Tensor, b, func(int, int) { shared = true })
	}
	return shared
}

// equal tells whether two tensors have the same bits.
func equal(a, b *device.Tensor) bool { return bytes.Equal(a.Bytes(nil), b.Bytes(nil)) }

// put writes a tensor over another, and tells whether that has other bits then.
func put(t, x *device.Tensor) (changed bool) {
	changed = !equal(t, x)
	t.CopyAt(0, x)
	return changed
}
