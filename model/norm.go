package model

import (
	"firstbit/device"
	"firstbit/libm"
	"firstbit/nn"
	"firstbit/reduce"
)

// RMSNorm is y = x/√(mean(x²)+ε)·w over the last dimension.
type RMSNorm struct {
	W   *nn.Param
	Eps float64

	x, rstd *device.Tensor
}

var (
	rmsnorm = &device.Kernel{Name: "rmsnorm", ByToken: true, In: device.Names("x w"), Scalars: device.Names("eps"), Out: device.Names("y rstd"),
		Fixed: reduce.MustPlan("d:seq/fp32"),
		Run:   device.Width(runNorm[float32], runNorm[float64])}
	rmsnormBackward = &device.Kernel{Name: "rmsnorm.bwd", ByToken: true, In: device.Names("dy x w rstd"), Out: device.Names("dx"),
		Fixed: reduce.MustPlan("d:seq/fp32"),
		Run:   device.Width(runNormBackward[float32], runNormBackward[float64])}
	rmsnormWeight = &device.Kernel{Name: "rmsnorm.wgrad", In: device.Names("dy x rstd"), Out: device.Names("dw"),
		Fixed: reduce.MustPlan("rows:seq/fp32"), Tokens: "rows",
		Fast: reduce.MustPlan("rows:splitk(8,arrival)/fp32"),
		Run:  device.Width(runNormWeight[float32], runNormWeight[float64])}
)

// Forward normalises x (rows, D).
func (n *RMSNorm) Forward(dev *device.Device, x *device.Tensor) *device.Tensor {
	n.x = x
	c := dev.Open("norm", rmsnorm)
	c.Read("x", x)
	c.Read("w", n.W.W)
	c.ReadScalar("eps", n.Eps)
	y := c.Write("y", x.Format, x.Shape()...)
	n.rstd = c.Write("rstd", nn.MasterFormat(x.Format), x.Rows())
	c.Do()
	return y
}

// Backward returns dx and accumulates dw.
func (n *RMSNorm) Backward(dev *device.Device, dy *device.Tensor) *device.Tensor {
	c := dev.Open("norm.dw", rmsnormWeight)
	c.Read("dy", dy)
	c.Read("x", n.x)
	c.Read("rstd", n.rstd)
	dw := c.Write("dw", n.W.Grad.Format, n.W.Grad.Shape()...)
	c.Do()
	nn.Accumulate(dev, "norm.grad", n.W, dw)

	c = dev.Open("norm.dx", rmsnormBackward)
	c.Read("dy", dy)
	c.Read("x", n.x)
	c.Read("w", n.W.W)
	c.Read("rstd", n.rstd)
	dx := c.Write("dx", n.x.Format, n.x.Shape()...)
	c.Do()
	return dx
}

func runNorm[T libm.Float](c *device.Call) {
	d := c.Input("x").Cols()
	nn.RMSNorm(device.Out[T](c, "y"), device.Out[T](c, "rstd"), device.In[T](c, "x"),
		device.In[T](c, "w"), d, T(c.Scalar("eps")), c.Fold("d", d))
}

func runNormBackward[T libm.Float](c *device.Call) {
	d := c.Input("dy").Cols()
	nn.RMSNormBackward(device.Out[T](c, "dx"), device.In[T](c, "dy"), device.In[T](c, "x"),
		device.In[T](c, "w"), device.In[T](c, "rstd"), d, c.Fold("d", d))
}

func runNormWeight[T libm.Float](c *device.Call) {
	d := c.Input("dy").Cols()
	nn.RMSNormWeightBackward(device.Out[T](c, "dw"), device.In[T](c, "dy"), device.In[T](c, "x"),
		device.In[T](c, "rstd"), d, c.Fold("rows", c.Input("dy").Rows()))
}
