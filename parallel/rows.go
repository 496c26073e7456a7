package parallel

import (
	"slices"

	"firstbit/device"
	"firstbit/libm"
	"firstbit/lowp"
)

// The collectives of layers work on rows: the elements of a tensor of one dimension, else what its last one holds. outer is the
// number of blocks that the rows of the whole are cut into before the members are: 1 where members have contiguous rows, B where
// each has a part of every sequence. In a group of one all of them return what they are given, without a Call.

var (
	gatherPart = &device.Kernel{Name: "all_gather", In: device.Names("x"), Scalars: device.Names("ranks nodes outer"), Out: device.Names("y")}
	gatherRows = &device.Kernel{Name: "all_gather", ByToken: true, In: device.Names("x"), Scalars: device.Names("ranks nodes outer"), Out: device.Names("y")}
	slice      = &device.Kernel{Name: "slice", In: device.Names("x"), Scalars: device.Names("ranks index outer"), Out: device.Names("y")}
	largest    = &device.Kernel{Name: "all_reduce.max", In: device.Names("x"), Scalars: device.Names("ranks nodes"), Out: device.Names("y")}
)

// rows is the number of rows of a tensor.
func rows(x *device.Tensor) int {
	if len(x.Shape()) == 1 {
		return x.Len()
	}
	return x.Rows()
}

// width is the number of elements of a row.
func width(x *device.Tensor) int {
	if len(x.Shape()) == 1 {
		return 1
	}
	return x.Cols()
}

// writeRows declares an output of so many rows like those of x.
func writeRows(c *device.Call, x *device.Tensor, f lowp.Format, rows int) *device.Tensor {
	if len(x.Shape()) == 1 {
		return c.Write("y", f, rows)
	}
	return c.Write("y", f, rows, x.Cols())
}

// move copies n elements.
func move(to *device.Tensor, at int, from *device.Tensor, lo, n int) {
	switch {
	case from.I32() != nil:
		copy(to.I32()[at:at+n], from.I32()[lo:])
	case from.F64() != nil:
		copy(to.F64()[at:at+n], from.F64()[lo:])
	default:
		copy(to.F32()[at:at+n], from.F32()[lo:])
	}
}

// parted is x's rows in each part of so many: none may be left over.
func parted(x *device.Tensor, parts int) int {
	n := rows(x)
	if n%parts != 0 {
		panic("parallel: the rows do not divide over blocks and members")
	}
	return n / parts
}

// Gather is every member's rows, one after another in each block.
//
// Shapes: x (outer·r,D) → y (outer·n·r,D), n the members.
func (m Member) Gather(dev *device.Device, label string, x *device.Tensor, outer int) *device.Tensor {
	if m.Size() == 1 {
		return x
	}
	run := parted(x, outer) * width(x)
	c := m.open(dev, label, gatherRows)
	c.Read("x", x)
	c.ReadScalar("outer", float64(outer))
	y := writeRows(c, x, x.Format, m.Size()*rows(x))
	m.gather(c, outer, run)
	return y
}

// gather lays the members' runs of each block down one after another.
func (m Member) gather(c *device.Call, outer, run int) {
	c.Body = func(c *device.Call) {
		m.meet(c, func(calls []*device.Call) {
			whole := calls[0].Output("y")
			for i, from := range calls {
				for o := range outer {
					move(whole, (o*len(calls)+i)*run, from.Input("x"), o*run, run)
				}
			}
			hand(calls, 0)
		})
	}
	c.Do()
}

// before is the product of the extents before one.
func before(x *device.Tensor, dim int) int {
	n := 1
	for _, d := range x.Shape()[:dim] {
		n *= d
	}
	return n
}

// GatherParts is the whole of what is cut along a dimension, of which every member has a part.
//
// Shapes: x (…,d,…) → y (…,n·d,…), n the members.
func (m Member) GatherParts(dev *device.Device, label string, x *device.Tensor, dim int) *device.Tensor {
	if m.Size() == 1 {
		return x
	}
	outer, shape := before(x, dim), slices.Clone(x.Shape())
	shape[dim] *= m.Size()
	c := m.open(dev, label, gatherPart)
	c.Read("x", x)
	c.ReadScalar("outer", float64(outer))
	y := c.Write("y", x.Format, shape...)
	m.gather(c, outer, x.Len()/outer)
	return y
}

// OwnPart is the inverse of GatherParts: a member's own part; no one meets.
//
// Shapes: x (…,n·d,…) → y (…,d,…).
func (m Member) OwnPart(dev *device.Device, label string, x *device.Tensor, dim int) *device.Tensor {
	if m.Size() == 1 {
		return x
	}
	shape := slices.Clone(x.Shape())
	shape[dim] /= m.Size()
	c := m.openSlice(dev, label, x, before(x, dim))
	y := c.Write("y", x.Format, shape...)
	m.slice(c, before(x, dim), y.Len()/before(x, dim))
	return y
}

// Scatter is the sum of every member's x, of which each keeps its own rows, in format f. Partial sums come at master
// width; the fixed plan adds them there and rounds the sum once, the fast one rounds each hop to f.
//
// Shapes: x (outer·n·r,D) → y (outer·r,D).
// Reduces: the members.
func (m Member) Scatter(dev *device.Device, label string, x *device.Tensor, outer int, f lowp.Format) *device.Tensor {
	if m.Size() == 1 {
		return x
	}
	n := parted(x, outer*m.Size())
	c := m.open(dev, label, scatterPartial[f])
	c.Read("x", x)
	c.ReadScalar("outer", float64(outer))
	y := writeRows(c, x, f, outer*n)
	c.Body = func(c *device.Call) { m.meet(c, func(calls []*device.Call) { m.add(calls, outer) }) }
	c.Do()
	return y
}

// Slice is a member's own rows of what every member has; no one meets.
//
// Shapes: x (outer·n·r,D) → y (outer·r,D).
func (m Member) Slice(dev *device.Device, label string, x *device.Tensor, outer int) *device.Tensor {
	if m.Size() == 1 {
		return x
	}
	n := parted(x, outer*m.Size())
	c := m.openSlice(dev, label, x, outer)
	y := writeRows(c, x, x.Format, outer*n)
	m.slice(c, outer, n*width(x))
	return y
}

func (m Member) openSlice(dev *device.Device, label string, x *device.Tensor, outer int) *device.Call {
	c := dev.Open(label, slice)
	c.Read("x", x)
	c.ReadScalar("ranks", float64(m.Size()))
	c.ReadScalar("index", float64(m.Index))
	c.ReadScalar("outer", float64(outer))
	return c
}

// slice copies the member's runs, one of each block.
func (m Member) slice(c *device.Call, outer, run int) {
	c.Body = func(c *device.Call) {
		for o := range outer {
			move(c.Output("y"), o*run, c.Input("x"), (o*m.Size()+m.Index)*run, run)
		}
	}
	c.Do()
}

// Largest is the largest of every member's x, element by element; NaN where one has it.
//
// Shapes: x (…) → y (…).
func (m Member) Largest(dev *device.Device, label string, x *device.Tensor) *device.Tensor {
	if m.Size() == 1 {
		return x
	}
	c := m.open(dev, label, largest)
	c.Read("x", x)
	y := c.Write("y", x.Format, x.Shape()...)
	c.Body = func(c *device.Call) {
		m.meet(c, func(calls []*device.Call) {
			most := calls[0].Output("y")
			most.CopyAt(0, calls[0].Input("x"))
			for _, c := range calls[1:] {
				larger(most.F32(), c.Input("x").F32())
				larger(most.F64(), c.Input("x").F64())
			}
			hand(calls, 0)
		})
	}
	c.Do()
	return y
}

// larger keeps the larger of each two; of two zeros +0, so that the order is nothing.
func larger[T libm.Float](y, x []T) {
	for i := range y {
		y[i] = max(y[i], x[i])
	}
}
