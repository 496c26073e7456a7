package inject

import (
	"math"

	"firstbit/device"
	"firstbit/spell"
	"firstbit/tune"
)

// output is what a fault acts on of all that a Call writes.
type output struct{ name string } // empty: the first

func (o *output) field() field { return word("out", "NAME", &o.name) }

// of is the output of a Call; nil: it has no such one.
func (o *output) of(f *Fault, c *device.Call) *device.Tensor {
	var names []string
	for i, out := range c.Out {
		names = append(names, out.Name)
		if o.name == "" && i == 0 || out.Name == o.name {
			return out.Tensor
		}
	}
	if len(names) == 0 {
		f.fail(c, "has no output")
	} else {
		f.fail(c, "has no output %q: %s", o.name, spell.OneOf(o.name, names))
	}
	return nil
}

// what a Call writes is called.
func what(c *device.Call) string {
	if c.State != nil {
		return "state"
	}
	return "output"
}

// elements are a run of elements of a tensor, or of one of its rows, which are what its first extent counts.
type elements struct{ first, count, stride, row int }

// one is a single element.
func one() elements { return elements{stride: 1, row: tune.Every} }

func (e *elements) fields() []field {
	return []field{number("elem", "I", &e.first, 0, math.MaxInt32), number("count", "N", &e.count, 1, math.MaxInt32),
		number("stride", "S", &e.stride, 1, math.MaxInt32), number("row", "R", &e.row, 0, math.MaxInt32)}
}

// of lists the elements of an output of a Call; nil: it has not all of them.
func (e *elements) of(f *Fault, c *device.Call, t *device.Tensor) (list []int) {
	lo, n, where := 0, t.Len(), what(c)
	if e.row != tune.Every {
		rows := t.Dim(0)
		if e.row >= rows {
			f.fail(c, "row=%d: the %s has %d rows", e.row, where, rows)
			return nil
		}
		n /= rows
		lo, where = e.row*n, "row"
	}
	if e.first >= n {
		f.fail(c, "elem=%d: the %s has %d elements", e.first, where, n)
		return nil
	}
	count := e.count
	switch {
	case count == 0 && e.row != tune.Every:
		count = (n-e.first-1)/e.stride + 1
	case count == 0:
		count = 1
	}
	if last := e.first + (count-1)*e.stride; last >= n {
		f.fail(c, "elem=%d count=%d stride=%d: the last is %d, and the %s has %d elements", e.first, count, e.stride, last, where, n)
		return nil
	}
	for i := range count {
		list = append(list, lo+e.first+i*e.stride)
	}
	return list
}

// change does something to each of the elements, and counts whether any has other bits for it.
func (e *elements) change(f *Fault, c *device.Call, t *device.Tensor, do func(i int)) {
	list := e.of(f, c, t)
	if list == nil {
		return
	}
	changed := false
	for _, i := range list {
		was := t.Bits(i)
		do(i)
		changed = changed || t.Bits(i) != was // a NaN may stay one
	}
	f.act(changed)
}

// rowsOf cuts a tensor into what its first extent counts.
func rowsOf(t *device.Tensor) (rows, width int) {
	rows = t.Dim(0)
	return rows, t.Len() / max(rows, 1)
}

// same is a copy of a tensor.
func same(t *device.Tensor) *device.Tensor {
	s := device.NewTensor(t.Format, t.Shape()...)
	s.CopyAt(0, t)
	return s
}

// move copies n elements of a tensor to the same place in another.
func move(to, from *device.Tensor, at, n int) {
	if n > 0 {
		to.CopyAt(at, from.View(at, at+n))
	}
}

// fill writes a number over all of a tensor.
func fill(t *device.Tensor, x float64) *device.Tensor {
	for i := range t.Len() {
		t.Set(i, x)
	}
	return t
}
