package model

import (
	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
)

// MLP is y = relu²(x·W1)·W2, without gate or bias.
//
// Shapes: x (rows,D), W1 (D,F), W2 (F,D) → y (rows,D).
type MLP struct {
	W1, W2 *device.Param

	x, h, a *device.Tensor
}

var (
	relu2         = &device.Kernel{Name: "relu2", Run: device.Width(runReLU2[float32], runReLU2[float64])}
	relu2Backward = &device.Kernel{Name: "relu2.bwd", Run: device.Width(runReLU2Backward[float32], runReLU2Backward[float64])}
)

// Forward is the layer.
func (m *MLP) Forward(dev *device.Device, x *device.Tensor) *device.Tensor {
	m.x = x
	m.h = dev.MatMulNN("w1", x, m.W1.W) // (rows,F)
	c := dev.Open("act", relu2)
	c.Read("x", m.h)
	m.a = c.Write("y", m.h.Format, m.h.Shape()...) // (rows,F)
	c.Do()
	return dev.MatMulNN("w2", m.a, m.W2.W) // (rows,D)
}

// Backward returns dx and accumulates dW1 and dW2.
func (m *MLP) Backward(dev *device.Device, dy *device.Tensor) *device.Tensor {
	// forward: y = a·W2
	da := dev.MatMulNT("w2.dx", dy, m.W2.W)                         // (rows,F)
	dev.Accumulate("w2.grad", m.W2, dev.MatMulTN("w2.dw", m.a, dy)) // (F,D)
	// forward: a = relu²(h)
	c := dev.Open("act.dx", relu2Backward)
	c.Read("dy", da)
	c.Read("x", m.h)
	dh := c.Write("dx", m.h.Format, m.h.Shape()...)
	c.Do()
	// forward: h = x·W1
	dev.Accumulate("w1.grad", m.W1, dev.MatMulTN("w1.dw", m.x, dh)) // (D,F)
	return dev.MatMulNT("w1.dx", dh, m.W1.W)                        // (rows,D)
}

// Params lists the weights.
func (m *MLP) Params() []*device.Param { return []*device.Param{m.W1, m.W2} }

func runReLU2[T libm.Float](c *device.Call) {
	kernel.ReLU2(device.Data[T](c.Out[0].Tensor), device.Data[T](c.In[0].Tensor))
}

func runReLU2Backward[T libm.Float](c *device.Call) {
	kernel.ReLU2Backward(device.Data[T](c.Out[0].Tensor), device.Data[T](c.In[0].Tensor), device.Data[T](c.In[1].Tensor))
}
