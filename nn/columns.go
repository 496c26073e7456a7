package nn

import (
	"firstbit/device"
	"firstbit/libm"
)

var (
	splitKernel = &device.Kernel{Name: "split", ByToken: true, In: device.Names("x"), Scalars: device.Names("groups"), Out: device.Names("part0 part1? part2? part3?"),
		Run: device.Width(runSplit[float32], runSplit[float64])}
	concatKernel = &device.Kernel{Name: "concat", ByToken: true, In: device.Names("part0 part1? part2? part3?"), Scalars: device.Names("groups"), Out: device.Names("y"),
		Run: device.Width(runConcat[float32], runConcat[float64])}
)

// partNames name the outputs of Split and the inputs of Concat.
var partNames = [...]string{"part0", "part1", "part2", "part3"}

// Split cuts the columns of x into parts of the given widths.
//
// Shapes: x (rows,Σ widths) → parts (rows,width).
func Split(d *device.Device, label string, x *device.Tensor, parts []*device.Tensor, widths ...int) {
	SplitGroups(d, label, x, parts, 1, widths...)
}

// SplitGroups is Split of columns that come group by group, with an equal share of every part in each; a part's own columns
// are its shares, one after another.
//
// Shapes: x (rows,Σ widths) → parts (rows,width).
func SplitGroups(d *device.Device, label string, x *device.Tensor, parts []*device.Tensor, groups int, widths ...int) {
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
func Concat(d *device.Device, label string, parts ...*device.Tensor) *device.Tensor {
	return ConcatGroups(d, label, 1, parts...)
}

// ConcatGroups is the inverse of SplitGroups.
//
// Shapes: parts (rows,width) → y (rows,Σ widths).
func ConcatGroups(d *device.Device, label string, groups int, parts ...*device.Tensor) *device.Tensor {
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

func runSplit[T libm.Float](c *device.Call) {
	x := c.Input("x")
	groups := int(c.Scalar("groups"))
	rows, width, from := x.Rows()*groups, x.Cols()/groups, 0 // a group of a row is a row of its own
	for i := 0; from < width; i++ {
		part := c.Output(partNames[i])
		n := part.Cols() / groups
		CopyColumns(device.Data[T](part), n, device.Data[T](x)[from:], width, rows, n)
		from += n
	}
}

func runConcat[T libm.Float](c *device.Call) {
	y := c.Output("y")
	groups := int(c.Scalar("groups"))
	rows, width, at := y.Rows()*groups, y.Cols()/groups, 0
	for i := 0; at < width; i++ {
		part := c.Input(partNames[i])
		n := part.Cols() / groups
		CopyColumns(device.Data[T](y)[at:], width, device.Data[T](part), n, rows, n)
		at += n
	}
}
