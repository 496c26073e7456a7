package nn

import (
	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/reduce"
)

// Form says which operand of a product is transposed, as BLAS names it. Shapes are those of the operands as they are stored, row-major.
type Form uint8

// The forms.
const (
	NN Form = iota // y = a·b,   a (m,k), b (k,n)
	NT             // y = a·bᵀ,  a (m,k), b (n,k)
	TN             // y = aᵀ·b,  a (k,m), b (k,n): the shape of a weight gradient, whose k are tokens
)

// Product is a matrix product, a value until it is run.
//
// Shapes:  by its form → y (m,n).
// Reduces: k.
type Product struct {
	Form   Form
	A, B   *device.Tensor
	Weight *Param      // the linear layer's, which may have quantised operands; nil: a and b are multiplied as they are
	Shards int         // ranks over which tensor parallelism cuts k; 0: every layout has k whole on a rank
	Format lowp.Format // of y
}

// Multiply is the product of two tensors, in the format of a; a weight gradient is kept at master width.
func Multiply(form Form, a, b *device.Tensor) Product {
	p := Product{Form: form, A: a, B: b, Format: a.Format}
	if form == TN {
		p.Format = MasterFormat(a.Format)
	}
	return p
}

// Fprop is a linear layer's y = x·W.
func Fprop(x *device.Tensor, w *Param) Product { return Multiply(NN, x, w.W).of(w) }

// Dgrad is the gradient of Fprop with respect to x, dx = dy·Wᵀ.
func Dgrad(dy *device.Tensor, w *Param) Product { return Multiply(NT, dy, w.W).of(w) }

// Wgrad is the gradient of Fprop with respect to W, dW = xᵀ·dy.
func Wgrad(x, dy *device.Tensor, w *Param) Product { return Multiply(TN, x, dy).of(w) }

func (p Product) of(w *Param) Product {
	p.Weight = w
	return p
}

// In is the product with y in a format of its own.
func (p Product) In(f lowp.Format) Product {
	p.Format = f
	return p
}

// Over is a rank's part of the product where tensor parallelism cuts k over so many ranks; a partial sum is kept at master width.
func (p Product) Over(shards int) Product {
	p.Shards, p.Format = shards, PartialFormat(p.Format, shards)
	return p
}

// Run is y, by a Call of that label.
func (p Product) Run(dev *device.Device, label string) *device.Tensor {
	if p.Weight != nil && p.Weight.Quant != nil {
		return p.Weight.Quant.Multiply(dev, label, p)
	}
	return p.Write(p.Open(dev, label, p.Kernel()))
}

// Kernel is the kernel of the product of operands as they are.
func (p Product) Kernel() *device.Kernel {
	if p.Shards > 0 {
		return shardProducts[p.Form]
	}
	return products[p.Form]
}

// Open opens the product's Call of a kernel, which reads a and b.
func (p Product) Open(dev *device.Device, label string, k *device.Kernel) *device.Call {
	c := dev.Open(label, k)
	c.Shards = max(p.Shards, 1)
	c.Read("a", p.A)
	c.Read("b", p.B)
	return c
}

// Write is y, written by the opened Call.
func (p Product) Write(c *device.Call) *device.Tensor {
	m, n, _ := p.Form.Extents(p.A, p.B)
	y := c.Write("y", p.Format, m, n)
	c.Do()
	return y
}

// Extents are those of a product of a and b.
func (f Form) Extents(a, b *device.Tensor) (m, n, k int) {
	switch f {
	case NN:
		return a.Rows(), b.Cols(), a.Cols()
	case NT:
		return a.Rows(), b.Rows(), a.Cols()
	}
	return a.Cols(), b.Cols(), a.Rows()
}

// Kernels by form. Those whose k tensor parallelism cuts say so, for the canonical order of their sums.
var (
	inSequence = reduce.MustPlan("k:seq/fp32")
	products   = [...]*device.Kernel{
		NN: {Name: "matmul", ByToken: true, Fixed: inSequence, Products: summed, In: operands, Out: result, Run: runProduct(NN)},
		NT: {Name: "matmul", ByToken: true, Fixed: inSequence, Products: summed, In: operands, Out: result, Run: runProduct(NT)},
		TN: {Name: "matmul.wgrad", Fixed: inSequence, Products: summed, Tokens: "k", Fast: reduce.MustPlan("k:splitk(4,arrival)/fp32"), In: operands, Out: result, Run: runProduct(TN)},
	}
	shardProducts = [...]*device.Kernel{
		NN: {Name: "matmul", ByToken: true, Fixed: inSequence, Products: summed, Sharded: "k", In: operands, Out: result, Run: runProduct(NN)},
		NT: {Name: "matmul", ByToken: true, Fixed: inSequence, Products: summed, Sharded: "k", In: operands, Out: result, Run: runProduct(NT)},
	}
	operands, result = device.Names("a b"), device.Names("y")
	summed           = []string{"k"}
)

func runProduct(f Form) func(*device.Call) {
	fold := func(c *device.Call) kernel.Fold {
		_, _, k := f.Extents(c.Input("a"), c.Input("b"))
		return c.Products("k", k, c.Operands("a", "b"))
	}
	return device.Width(func(c *device.Call) {
		RunProduct(c, f, device.In[float32](c, "a"), device.In[float32](c, "b"), fold(c))
	},
		func(c *device.Call) {
			RunProduct(c, f, device.In[float64](c, "a"), device.In[float64](c, "b"), fold(c))
		})
}

// RunProduct runs a product's Call by a fold on what the elements of its operands stand for.
func RunProduct[T libm.Float](c *device.Call, f Form, a, b []T, fold kernel.Fold) {
	m, n, k := f.Extents(c.Input("a"), c.Input("b"))
	x, y := Matrices(c, f, a, b)
	kernel.MatMul(device.Out[T](c, "y"), n, x, y, m, n, k, fold)
}

// Matrices are the operands of a product's Call as they meet.
func Matrices[T libm.Float](c *device.Call, f Form, a, b []T) (x, y kernel.Mat[T]) {
	x, y = kernel.RowMajor(a, c.Input("a").Cols()), kernel.RowMajor(b, c.Input("b").Cols())
	switch f {
	case TN:
		x = x.T()
	case NT:
		y = y.T()
	}
	return x, y
}
