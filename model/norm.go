package model

import (
	"firstbit/device"
	"firstbit/kernel"
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
	rmsnorm = &device.Kernel{Name: "rmsnorm", Fixed: reduce.MustPlan("d:seq/fp32"),
		Run: device.Width(runNorm[float32], runNorm[float64])}
	rmsnormBackward = &device.Kernel{Name: "rmsnorm.bwd", Fixed: reduce.MustPlan("d:seq/fp32"),
		Run: device.Width(runNormBackward[float32], runNormBackward[float64])}
	rmsnormWeight = &device.Kernel{Name: "rmsnorm.wgrad", Fixed: reduce.MustPlan("rows:seq/fp32"), Tokens: "rows",
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
	d := c.In[0].Cols()
	kernel.RMSNorm(device.Data[T](c.Out[0].Tensor), device.Data[T](c.Out[1].Tensor), device.Data[T](c.In[0].Tensor),
		device.Data[T](c.In[1].Tensor), d, T(c.Scalar("eps")), c.Fold("d", d))
}

func runNormBackward[T libm.Float](c *device.Call) {
	d := c.In[0].Cols()
	kernel.RMSNormBackward(device.Data[T](c.Out[0].Tensor), device.Data[T](c.In[0].Tensor), device.Data[T](c.In[1].Tensor),
		device.Data[T](c.In[2].Tensor), device.Data[T](c.In[3].Tensor), d, c.Fold("d", d))
}

func runNormWeight[T libm.Float](c *device.Call) {
	d := c.In[0].Cols()
	kernel.RMSNormWeightBackward(device.Data[T](c.Out[0].Tensor), device.Data[T](c.In[0].Tensor), device.Data[T](c.In[1].Tensor),
		device.Data[T](c.In[2].Tensor), d, c.Fold("rows", c.In[0].Rows()))
}
