package ssm

import (
	"firstbit/device"
	"firstbit/libm"
	"firstbit/nn"
)

// What ranks that have consecutive steps of a sequence tell each other. A rank sends before it receives where it can: only the
// state waits for the rank before, and its gradient for the one after.

var halo = &device.Kernel{Name: "causal_conv1d.halo", In: device.Names("x"), Scalars: device.Names("batch from"), Out: device.Names("y"),
	Run: device.Width(runHalo[float32], runHalo[float64])}

// first and last tell whether no other rank has steps before the rank's, and after.
func (m *Mamba) first() bool { return m.CP.Index == 0 }
func (m *Mamba) last() bool  { return m.CP.Index == m.CP.Size()-1 }

// firstStep is the step of its sequence that the rank's first is.
func (m *Mamba) firstStep() int { return m.CP.Index * m.in.Rows() / m.Batch }

// stepsBefore is the K−1 steps of x before the rank's first; nil where the sequence begins. The rank's own last ones go to the
// rank after.
//
// Shapes: x (B·T,C) → (B·(K−1),C).
func (m *Mamba) stepsBefore(dev *device.Device, x *device.Tensor) *device.Tensor {
	n := m.Config.Conv - 1
	if n == 0 {
		return nil
	}
	if !m.last() {
		m.CP.Send(dev, "conv.halo", m.CP.Index+1, m.steps(dev, "conv.tail", x, x.Rows()/m.Batch-n, n))
	}
	if m.first() {
		return nil
	}
	return m.CP.Recv(dev, "conv.halo", m.CP.Index-1, x.Format, m.Batch*n, x.Cols())
}

// gradientsAfter is dy of the K−1 steps after the rank's last; nil where the sequence ends. The rank's own first ones go to the
// rank before, whose inputs reach them.
//
// Shapes: dy (B·T,C) → (B·(K−1),C).
func (m *Mamba) gradientsAfter(dev *device.Device, dy *device.Tensor) *device.Tensor {
	n := m.Config.Conv - 1
	if n == 0 {
		return nil
	}
	if !m.first() {
		m.CP.Send(dev, "conv.halo", m.CP.Index-1, m.steps(dev, "conv.head", dy, 0, n))
	}
	if m.last() {
		return nil
	}
	return m.CP.Recv(dev, "conv.halo", m.CP.Index+1, dy.Format, m.Batch*n, dy.Cols())
}

// steps is n steps of every sequence, from one on.
func (m *Mamba) steps(dev *device.Device, label string, x *device.Tensor, from, n int) *device.Tensor {
	c := dev.Open(label, halo)
	c.Read("x", x)
	c.ReadScalar("batch", float64(m.Batch))
	c.ReadScalar("from", float64(from))
	y := c.Write("y", x.Format, m.Batch*n, x.Cols())
	c.Do()
	return y
}

func runHalo[T libm.Float](c *device.Call) {
	x, y := c.Input("x"), c.Output("y")
	b, from := int(c.Scalar("batch")), int(c.Scalar("from"))*x.Cols()
	whole, part := x.Len()/b, y.Len()/b
	nn.CopyColumns(device.Out[T](c, "y"), part, device.In[T](c, "x")[from:], whole, b, part)
}

// stateBefore is the state that the rank before leaves; nil where the sequence begins.
func (m *Mamba) stateBefore(dev *device.Device) *device.Tensor {
	if m.first() {
		return nil
	}
	return m.CP.Recv(dev, "state", m.CP.Index-1, nn.MasterFormat(m.in.Format), m.Batch, m.Heads, m.HeadDim, m.State)
}

// passState gives the state after the rank's last step to the rank after.
func (m *Mamba) passState(dev *device.Device, last *device.Tensor) {
	if !m.last() {
		m.CP.Send(dev, "state", m.CP.Index+1, last)
	}
}

// stateGradient is the gradient of that state; nil where the sequence ends.
func (m *Mamba) stateGradient(dev *device.Device) *device.Tensor {
	if m.last() {
		return nil
	}
	return m.CP.Recv(dev, "state", m.CP.Index+1, nn.MasterFormat(m.in.Format), m.Batch, m.Heads, m.HeadDim, m.State)
}

// passStateGradient gives the gradient of the state before the rank's first step to the rank before.
func (m *Mamba) passStateGradient(dev *device.Device, dbegin *device.Tensor) {
	if !m.first() {
		m.CP.Send(dev, "state", m.CP.Index-1, dbegin)
	}
}
