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
	return nn.Linear(dev, "down", x, l.Down) // (T,L)
}

// Out takes what was combined back to D.
func (l *Latent) Out(dev *device.Device, y *device.Tensor) *device.Tensor {
	if l == nil {
		return y
	}
	l.y = y
	return nn.Linear(dev, "up", y, l.Up) // (T,D)
}

// OutBackward takes dy to what was combined.
func (l *Latent) OutBackward(dev *device.Device, dy *device.Tensor) *device.Tensor {
	if l == nil {
		return dy
	}
	// forward: out = y·Up
	nn.Accumulate(dev, "up.grad", l.Up, nn.LinearDW(dev, "up.dw", l.y, dy, l.Up)) // (L,D)
	return nn.LinearDX(dev, "up.dx", dy, l.Up)                                    // (T,L)
}

// InBackward takes the gradient of what was dispatched to x.
func (l *Latent) InBackward(dev *device.Device, d *device.Tensor) *device.Tensor {
	if l == nil {
		return d
	}
	// forward: in = x·Down
	nn.Accumulate(dev, "down.grad", l.Down, nn.LinearDW(dev, "down.dw", l.x, d, l.Down)) // (D,L)
	return nn.LinearDX(dev, "down.dx", d, l.Down)                                        // (T,D)
}
