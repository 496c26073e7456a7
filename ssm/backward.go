package ssm

import (
	"firstbit/device"
	"firstbit/nn"
)

// Backward returns the gradient of the layer's input and accumulates those of its weights.
func (m *Mamba) Backward(dev *device.Device, dout *device.Tensor) *device.Tensor {
	dout = m.TP.Gather(dev, "out_proj.dx.gather", dout, 1)
	// forward: out = normed·out_proj
	dnormed := nn.Dgrad(dout, m.OutProj).Run(dev, "out_proj.dx") // (B·T,I)
	nn.Accumulate(dev, "out_proj.grad", m.OutProj, nn.Wgrad(m.normed, dout, m.OutProj).Run(dev, "out_proj.dw"))
	// forward: normed = norm(y·silu(z))
	dy, dz := m.gateBackward(dev, dnormed)
	// forward: y = scan(x, b, c, dt, la) + d·x
	dact, ddt, dla := m.scanBackward(dev, dy)
	// forward: dt = softplus(raw + dt_bias), la = −exp(a_log)·dt
	draw := m.timeStepBackward(dev, ddt, dla)
	// forward: x, b, c = split(silu(conv(xbc)))
	dxbc := m.convolveBackward(dev, dact)
	// forward: z, xbc, raw = split(in·in_proj)
	dp := nn.ConcatGroups(dev, "split.dx", m.Groups, dz, dxbc, draw) // (B·T,I+C+H)
	nn.Accumulate(dev, "in_proj.grad", m.InProj, nn.Wgrad(m.in, dp, m.InProj).Run(dev, "in_proj.dw"))
	part := nn.Dgrad(dp, m.InProj).Over(m.TP.Size()).Run(dev, "in_proj.dx")
	return m.TP.Scatter(dev, "in_proj.dx.scatter", part, 1, m.in.Format)
}

func (m *Mamba) gateBackward(dev *device.Device, dnormed *device.Tensor) (dy, dz *device.Tensor) {
	c := dev.Open("norm.dw", gatedNormWeight)
	c.Read("dy", dnormed)
	c.Read("x", m.y)
	c.Read("z", m.z)
	c.Read("rstd", m.rstd)
	dw := c.Write("dw", m.Norm.Grad.Format, m.Norm.Grad.Shape()...)
	c.Do()
	nn.Accumulate(dev, "norm.grad", m.Norm, dw)

	c = dev.Open("norm.dx", gatedNormBackwardKernel)
	c.Read("dy", dnormed)
	c.Read("x", m.y)
	c.Read("z", m.z)
	c.Read("w", m.Norm.W)
	c.Read("rstd", m.rstd)
	dy = c.Write("dx", m.y.Format, m.y.Shape()...)
	dz = c.Write("dz", m.z.Format, m.z.Shape()...)
	c.Do()
	return dy, dz
}

// scanBackward returns the gradient of the convolution's activations (x, b and c side by side), dt and la.
func (m *Mamba) scanBackward(dev *device.Device, dy *device.Tensor) (dact, ddt, dla *device.Tensor) {
	dlast := m.stateGradient(dev)
	c := dev.Open("scan.dx", scanBackward)
	m.seq.read(c)
	c.Read("dy", dy)
	c.ReadIf("dlast", dlast)
	dx := c.Write("dx", m.seq.X.Format, m.seq.X.Shape()...)
	db := c.Write("db", m.seq.B.Format, m.seq.B.Shape()...)
	dc := c.Write("dc", m.seq.C.Format, m.seq.C.Shape()...)
	ddt = c.Write("ddt", m.seq.DT.Format, m.seq.DT.Shape()...)
	dla = c.Write("dla", m.seq.LA.Format, m.seq.LA.Shape()...)
	var dbegin *device.Tensor
	if b := m.seq.Begin; b != nil {
		dbegin = c.Write("dbegin", b.Format, b.Shape()...)
	}
	c.Do()
	m.passStateGradient(dev, dbegin)

	c = dev.Open("d.dw", skipBackwardKernel)
	c.Read("dy", dy)
	c.Read("x", m.seq.X)
	dd := c.Write("dd", m.Skip.Grad.Format, m.Heads)
	c.Do()
	nn.Accumulate(dev, "d.grad", m.Skip, dd)
	return nn.ConcatGroups(dev, "conv.split.dx", m.seq.Groups, dx, db, dc), ddt, dla
}

func (m *Mamba) timeStepBackward(dev *device.Device, ddt, dla *device.Tensor) *device.Tensor {
	c := dev.Open("a_log.dw", decayBackwardKernel)
	c.Read("dla", dla)
	c.Read("dt", m.seq.DT)
	c.Read("a_log", m.ALog.W)
	da := c.Write("da", m.ALog.Grad.Format, m.Heads)
	c.Do()
	nn.Accumulate(dev, "a_log.grad", m.ALog, da)

	c = dev.Open("dt.dx", timeStepBackwardKernel)
	c.Read("ddt", ddt)
	c.Read("dla", dla)
	c.Read("raw", m.raw)
	c.Read("bias", m.DTBias.W)
	c.Read("a_log", m.ALog.W)
	c.ReadScalar("least", m.DTMin)
	draw := c.Write("draw", m.raw.Format, m.raw.Shape()...)
	c.Do()

	c = dev.Open("dt_bias.dw", biasBackward)
	c.Read("dy", draw)
	db := c.Write("db", m.DTBias.Grad.Format, m.Heads)
	c.Do()
	nn.Accumulate(dev, "dt_bias.grad", m.DTBias, db)
	return draw
}

func (m *Mamba) convolveBackward(dev *device.Device, dact *device.Tensor) *device.Tensor {
	c := dev.Open("conv.act.dx", siluBackwardKernel)
	c.Read("dy", dact)
	c.Read("x", m.conv)
	dconv := c.Write("dx", m.conv.Format, m.conv.Shape()...)
	c.Do()

	c = dev.Open("conv.dw", convolutionWeight)
	c.Read("dy", dconv)
	c.Read("x", m.xbc)
	c.ReadIf("before", m.before)
	readDocuments(c, m.Starts, m.firstStep())
	c.ReadScalar("batch", float64(m.Batch))
	dw := c.Write("dw", m.Conv.Grad.Format, m.Conv.Grad.Shape()...)
	db := c.Write("dbias", m.ConvBias.Grad.Format, m.ConvBias.Grad.Shape()...)
	c.Do()
	nn.Accumulate(dev, "conv.grad", m.Conv, dw)
	nn.Accumulate(dev, "conv.bias.grad", m.ConvBias, db)

	after := m.gradientsAfter(dev, dconv)
	c = dev.Open("conv.dx", convolutionBackward)
	c.Read("dy", dconv)
	c.Read("w", m.Conv.W)
	c.ReadIf("after", after)
	readDocuments(c, m.Starts, m.firstStep())
	c.ReadScalar("batch", float64(m.Batch))
	dxbc := c.Write("dx", m.xbc.Format, m.xbc.Shape()...)
	c.Do()
	return dxbc
}
