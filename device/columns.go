package device

import (
	"firstbit/kernel"
	"firstbit/libm"
)

var (
	splitKernel  = &Kernel{Name: "split", Run: Width(runSplit[float32], runSplit[float64])}
	concatKernel = &Kernel{Name: "concat", Run: Width(runConcat[float32], runConcat[float64])}
)

// partNames name the outputs of Split and the inputs of Concat.
var partNames = [...]string{"part0", "part1", "part2", "part3"}

// Split cuts the columns of x into parts of the given widths.
//
// Shapes: x (rows,Σ widths) → parts (rows,width).
func (d *Device) Split(label string, x *Tensor, parts []*Tensor, widths ...int) {
	d.SplitGroups(label, x, parts, 1, widths...)
}

// SplitGroups is Split of columns that come group by group, with an equal share of every part in each; a part's own columns
// are its shares, one after another.
//
// Shapes: x (rows,Σ widths) → parts (rows,width).
func (d *Device) SplitGroups(label string, x *Tensor, parts []*Tensor, groups int, widths ...int) {
	c := d.Open(label, splitKernel)
	c.Read("x", x)
	c.ReadScalar("groups", float64(groups))
	for i, w := range widths {
		parts[i] = c.Write(partNames[i], x.Format, x.Rows(), w)
	}
	c.Do()
}

// Concat joins the columns of tensors with as many rows.
//
// Shapes: parts (rows,width) → y (rows,Σ widths).
func (d *Device) Concat(label string, parts ...*Tensor) *Tensor {
	return d.ConcatGroups(label, 1, parts...)
}

// ConcatGroups is the inverse of SplitGroups.
//
// Shapes: parts (rows,width) → y (rows,Σ widths).
func (d *Device) ConcatGroups(label string, groups int, parts ...*Tensor) *Tensor {
	c := d.Open(label, concatKernel)
	c.ReadScalar("groups", float64(groups))
	n := 0
	for i, p := range parts {
		c.Read(partNames[i], p)
		n += p.Cols()
	}
	y := c.Write("y", parts[0].Format, parts[0].Rows(), n)
	c.Do()
	return y
}

func runSplit[T libm.Float](c *Call) {
	x := c.In[0].Tensor
	groups := int(c.Scalar("groups"))
	rows, width, from := x.Rows()*groups, x.Cols()/groups, 0 // a group of a row is a row of its own
	for i := range c.Out {
		n := c.Out[i].Cols() / groups
		kernel.CopyColumns(Data[T](c.Out[i].Tensor), n, Data[T](x)[from:], width, rows, n)
		from += n
	}
}

func runConcat[T libm.Float](c *Call) {
	y := c.Out[0].Tensor
	groups := int(c.Scalar("groups"))
	rows, width, at := y.Rows()*groups, y.Cols()/groups, 0
	for i := range c.In {
		n := c.In[i].Cols() / groups
		kernel.CopyColumns(Data[T](y)[at:], width, Data[T](c.In[i].Tensor), n, rows, n)
		at += n
	}
}
