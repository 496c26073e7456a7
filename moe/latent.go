package moe

import (
	"firstbit/device"
	"firstbit/nn"
)

// Latent narrows what the experts see, and what a dispatch would send, to L.
//
//	experts(x·Down)·Up
//
// The router and the shared expert see x. A nil Latent leaves everything as wide as it is.
//
// Shapes: Down (D,L), Up (L,D).
// Source: docs/facts.md, Model; Megatron Core's latent projections around dispatch and combine.
type Latent struct {
	Down, Up *nn.Param

	x, y *device.Tensor
}

// In is what is dispatched.
func (l *Latent) In(dev *device.Device, x *device.Tensor) *device.Tensor {
	if l == nil {
		return x
	}
	l.x = x
	return nn.Fprop(x, l.Down).Run(dev, "down") // (T,L)
}

// Out takes what was combined back to D.
func (l *Latent) Out(dev *device.Device, y *device.Tensor) *device.Tensor {
	if l == nil {
		return y
	}
	l.y = y
	return nn.Fprop(y, l.Up).Run(dev, "up") // (T,D)
}

// OutBackward takes dy to what was combined.
func (l *Latent) OutBackward(dev *device.Device, dy *device.Tensor) *device.Tensor {
	if l == nil {
		return dy
	}
	// forward: out = y·Up
	nn.Accumulate(dev, "up.grad", l.Up, nn.Wgrad(l.y, dy, l.Up).Run(dev, "up.dw")) // (L,D)
	return nn.Dgrad(dy, l.Up).Run(dev, "up.dx")                                    // (T,L)
}

// InBackward takes the gradient of what was dispatched to x.
func (l *Latent) InBackward(dev *device.Device, d *device.Tensor) *device.Tensor {
	if l == nil {
		return d
	}
	// forward: in = x·Down
	nn.Accumulate(dev, "down.grad", l.Down, nn.Wgrad(l.x, d, l.Down).Run(dev, "down.dw")) // (D,L)
	return nn.Dgrad(d, l.Down).Run(dev, "down.dx")                                        // (T,D)
}
