package nn

import (
	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/reduce"
)

// The products of a linear layer. Shapes name the operands as they are stored, row-major.
var (
	matmulNN = &device.Kernel{Name: "matmul", Fixed: reduce.MustPlan("k:seq/fp32"), Run: device.Width(runNN[float32], runNN[float64])}
	matmulNT = &device.Kernel{Name: "matmul", Fixed: reduce.MustPlan("k:seq/fp32"), Run: device.Width(runNT[float32], runNT[float64])}
	matmulTN = &device.Kernel{Name: "matmul.wgrad", Fixed: reduce.MustPlan("k:seq/fp32"), Tokens: "k",
		Fast: reduce.MustPlan("k:splitk(4,arrival)/fp32"), Run: device.Width(runTN[float32], runTN[float64])}
	// The products whose k lies on several ranks.
	matmulShardNN = &device.Kernel{Name: "matmul", Fixed: reduce.MustPlan("k:seq/fp32"), Sharded: "k", Run: device.Width(runNN[float32], runNN[float64])}
	matmulShardNT = &device.Kernel{Name: "matmul", Fixed: reduce.MustPlan("k:seq/fp32"), Sharded: "k", Run: device.Width(runNT[float32], runNT[float64])}

	add        = &device.Kernel{Name: "add", Run: device.Width(runAdd[float32], runAdd[float64])}
	accumulate = &device.Kernel{Name: "accumulate", Run: device.Width(runAccumulate[float32], runAccumulate[float64])}
)

// MatMulNN is y = a·b.
//
// Shapes: a (m,k), b (k,n) → y (m,n) in the format of a.
// Reduces: k.
func MatMulNN(d *device.Device, label string, a, b *device.Tensor) *device.Tensor {
	return matmul(d, label, matmulNN, a, b, a.Format, a.Rows(), b.Cols())
}

// MatMulNT is y = a·bᵀ.
//
// Shapes: a (m,k), b (n,k) → y (m,n) in the format of a.
// Reduces: k.
func MatMulNT(d *device.Device, label string, a, b *device.Tensor) *device.Tensor {
	return matmul(d, label, matmulNT, a, b, a.Format, a.Rows(), b.Rows())
}

// MatMulTN is y = aᵀ·b, the shape of a weight gradient; it is kept at master width.
//
// Shapes: a (k,m), b (k,n) → y (m,n).
// Reduces: k (the rows: tokens).
func MatMulTN(d *device.Device, label string, a, b *device.Tensor) *device.Tensor {
	return matmul(d, label, matmulTN, a, b, MasterFormat(a.Format), a.Cols(), b.Cols())
}

// MatMulNTIn is MatMulNT with the output in a format of its own.
func MatMulNTIn(d *device.Device, f lowp.Format, label string, a, b *device.Tensor) *device.Tensor {
	return matmul(d, label, matmulNT, a, b, f, a.Rows(), b.Rows())
}

// MatMulNNIn is MatMulNN with the output in a format of its own.
func MatMulNNIn(d *device.Device, f lowp.Format, label string, a, b *device.Tensor) *device.Tensor {
	return matmul(d, label, matmulNN, a, b, f, a.Rows(), b.Cols())
}

// ShardNN is a rank's part of MatMulNN whose k is cut over so many ranks; a partial sum is kept at master width.
//
// Shapes: a (m,k/shards), b (k/shards,n) → y (m,n).
// Reduces: k, of the rank.
func ShardNN(d *device.Device, label string, a, b *device.Tensor, shards int) *device.Tensor {
	return shard(d, label, matmulShardNN, a, b, a.Rows(), b.Cols(), shards)
}

// ShardNT is a rank's part of MatMulNT whose k is cut over so many ranks; a partial sum is kept at master width.
//
// Shapes: a (m,k/shards), b (n,k/shards) → y (m,n).
// Reduces: k, of the rank.
func ShardNT(d *device.Device, label string, a, b *device.Tensor, shards int) *device.Tensor {
	return shard(d, label, matmulShardNT, a, b, a.Rows(), b.Rows(), shards)
}

func shard(d *device.Device, label string, k *device.Kernel, a, b *device.Tensor, m, n, shards int) *device.Tensor {
	f := a.Format
	if shards > 1 {
		f = MasterFormat(f)
	}
	c := d.Open(label, k)
	c.Shards = shards
	c.Read("a", a)
	c.Read("b", b)
	y := c.Write("y", f, m, n)
	c.Do()
	return y
}

func matmul(d *device.Device, label string, k *device.Kernel, a, b *device.Tensor, f lowp.Format, m, n int) *device.Tensor {
	c := d.Open(label, k)
	c.Read("a", a)
	c.Read("b", b)
	y := c.Write("y", f, m, n)
	c.Do()
	return y
}

func runNN[T libm.Float](c *device.Call) {
	a, b := c.In[0].Tensor, c.In[1].Tensor
	m, n, k := a.Rows(), b.Cols(), a.Cols()
	kernel.MatMul(device.Data[T](c.Out[0].Tensor), n, kernel.RowMajor(device.Data[T](a), k), kernel.RowMajor(device.Data[T](b), n), m, n, k, c.Fold("k", k))
}

func runNT[T libm.Float](c *device.Call) {
	a, b := c.In[0].Tensor, c.In[1].Tensor
	m, n, k := a.Rows(), b.Rows(), a.Cols()
	kernel.MatMul(device.Data[T](c.Out[0].Tensor), n, kernel.RowMajor(device.Data[T](a), k), kernel.RowMajor(device.Data[T](b), k).T(), m, n, k, c.Fold("k", k))
}

func runTN[T libm.Float](c *device.Call) {
	a, b := c.In[0].Tensor, c.In[1].Tensor
	m, n, k := a.Cols(), b.Cols(), a.Rows()
	kernel.MatMul(device.Data[T](c.Out[0].Tensor), n, kernel.RowMajor(device.Data[T](a), m).T(), kernel.RowMajor(device.Data[T](b), n), m, n, k, c.Fold("k", k))
}

// Sum is y = a + b, element by element, in that order.
func Sum(d *device.Device, label string, a, b *device.Tensor) *device.Tensor {
	c := d.Open(label, add)
	c.Read("a", a)
	c.Read("b", b)
	y := c.Write("y", a.Format, a.Shape()...)
	c.Do()
	return y
}

func runAdd[T libm.Float](c *device.Call) {
	kernel.Add(device.Data[T](c.Out[0].Tensor), device.Data[T](c.In[0].Tensor), device.Data[T](c.In[1].Tensor))
}

// Accumulate adds the gradient of one use in one microbatch to the parameter's:
// the first of a step is copied, those that follow are added in call order. A Param whose uses are
// kept apart has one gradient for each.
//
// A steady gradient that is added to once a step is computed where the parameter's lies from the third step on, and the copy is none: in a
// simulation of many ranks that is a pass over the gradients of each.
func Accumulate(d *device.Device, label string, p *Param, dw *device.Tensor) {
	if p.Join != nil {
		dw = p.Join(d, label, dw)
	}
	if p.Apart {
		count(d, label, p, p.use(d), 0, dw)
		return
	}
	if p.once && p.adds == 1 {
		panic("nn: " + p.Name + ": its gradient is added to again, and was computed in its place")
	}
	c := d.Open(label, accumulate)
	c.Read("dw", dw)
	if p.adds > 0 {
		c.Read("grad", p.Grad)
	}
	c.Update("grad", p.Grad)
	p.adds++
	c.Do()
	if p.once && dw.Format == p.Grad.Format && !dw.LiesIn(p.Grad, 0) {
		dw.Alias(p.Grad)
	}
	if p.Added != nil {
		p.Added()
	}
}

func runAccumulate[T libm.Float](c *device.Call) {
	grad, dw := device.Data[T](c.Out[0].Tensor), device.Data[T](c.In[0].Tensor)
	switch {
	case len(c.In) == 2:
		kernel.Add(grad, grad, dw)
	case !c.In[0].LiesIn(c.Out[0].Tensor, 0):
		copy(grad, dw)
	}
}
