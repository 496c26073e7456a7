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
	c := d.Open(label, splitKernel)
	c.Read("x", x)
	for i, w := range widths {
		parts[i] = c.Write(partNames[i], x.Format, x.Rows(), w)
	}
	c.Do()
}

// Concat joins the columns of tensors with as many rows.
//
// Shapes: parts (rows,width) → y (rows,Σ widths).
func (d *Device) Concat(label string, parts ...*Tensor) *Tensor {
	c := d.Open(label, concatKernel)
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
	from := 0
	for i := range c.Out {
		n := c.Out[i].Cols()
		kernel.CopyColumns(Data[T](c.Out[i].Tensor), n, Data[T](x)[from:], x.Cols(), x.Rows(), n)
		from += n
	}
}

func runConcat[T libm.Float](c *Call) {
	y := c.Out[0].Tensor
	at := 0
	for i := range c.In {
		n := c.In[i].Cols()
		kernel.CopyColumns(Data[T](y)[at:], y.Cols(), Data[T](c.In[i].Tensor), n, y.Rows(), n)
		at += n
	}
}
