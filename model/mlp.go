package model

import (
	"firstbit/device"
	"firstbit/libm"
	"firstbit/nn"
	"firstbit/parallel"
)

// MLP is y = relu²(x·W1)·W2, without gate or bias. A tensor-parallel rank has part of the hidden width.
//
// Shapes: x (rows/tp,D), W1 (D,F/tp), W2 (F/tp,D) → y (rows/tp,D).
type MLP struct {
	W1, W2 *nn.Param
	TP     parallel.Member

	x, h, a *device.Tensor // of all rows
}

var (
	relu2 = &device.Kernel{Name: "relu2", ByToken: true, In: device.Names("x"), Out: device.Names("y"),
		Run: device.Width(runReLU2[float32], runReLU2[float64])}
	relu2Backward = &device.Kernel{Name: "relu2.bwd", ByToken: true, In: device.Names("dy x"), Out: device.Names("dx"),
		Run: device.Width(runReLU2Backward[float32], runReLU2Backward[float64])}
)

// Forward is the layer.
func (m *MLP) Forward(dev *device.Device, x *device.Tensor) *device.Tensor {
	dev.CutColumns(m.TP.Index, m.TP.Size())
	m.x = m.TP.Gather(dev, "x.gather", x, 1) // (rows,D)
	m.h = nn.Fprop(m.x, m.W1).Run(dev, "w1") // (rows,F/tp)
	c := dev.Open("act", relu2)
	c.Read("x", m.h)
	m.a = c.Write("y", m.h.Format, m.h.Shape()...) // (rows,F/tp)
	c.Do()
	y := nn.Fprop(m.a, m.W2).Over(m.TP.Size()).Run(dev, "w2") // (rows,D)
	return m.TP.Scatter(dev, "w2.scatter", y, 1, x.Format)    // (rows/tp,D)
}

// Backward returns dx and accumulates dW1 and dW2.
func (m *MLP) Backward(dev *device.Device, dy *device.Tensor) *device.Tensor {
	format := dy.Format
	dy = m.TP.Gather(dev, "dy.gather", dy, 1) // (rows,D)
	// forward: y = a·W2
	da := nn.Dgrad(dy, m.W2).Run(dev, "w2.dx")                                     // (rows,F/tp)
	nn.Accumulate(dev, "w2.grad", m.W2, nn.Wgrad(m.a, dy, m.W2).Run(dev, "w2.dw")) // (F/tp,D)
	// forward: a = relu²(h)
	c := dev.Open("act.dx", relu2Backward)
	c.Read("dy", da)
	c.Read("x", m.h)
	dh := c.Write("dx", m.h.Format, m.h.Shape()...)
	c.Do()
	// forward: h = x·W1
	nn.Accumulate(dev, "w1.grad", m.W1, nn.Wgrad(m.x, dh, m.W1).Run(dev, "w1.dw")) // (D,F/tp)
	dx := nn.Dgrad(dh, m.W1).Over(m.TP.Size()).Run(dev, "w1.dx")                   // (rows,D)
	return m.TP.Scatter(dev, "w1.dx.scatter", dx, 1, format)                       // (rows/tp,D)
}

// Params lists the weights.
func (m *MLP) Params() []*nn.Param { return []*nn.Param{m.W1, m.W2} }

func runReLU2[T libm.Float](c *device.Call) {
	nn.ReLU2(device.Out[T](c, "y"), device.In[T](c, "x"))
}

func runReLU2Backward[T libm.Float](c *device.Call) {
	nn.ReLU2Backward(device.Out[T](c, "dx"), device.In[T](c, "dy"), device.In[T](c, "x"))
}
