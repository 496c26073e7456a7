package moe

import "firstbit/device"

// Latent narrows what the experts see, and what a dispatch would send, to L.
//
//	experts(x·Down)·Up
//
// The router and the shared expert see x. A nil Latent leaves everything as wide as it is.
//
// Shapes: Down (D,L), Up (L,D).
// Source: FACTS §5; Megatron Core's latent projections around dispatch and combine.
type Latent struct {
	Down, Up *device.Param

	x, y *device.Tensor
}

// In is what is dispatched.
func (l *Latent) In(dev *device.Device, x *device.Tensor) *device.Tensor {
	if l == nil {
		return x
	}
	l.x = x
	return dev.MatMulNN("down", x, l.Down.W) // (T,L)
}

// Out takes what was combined back to D.
func (l *Latent) Out(dev *device.Device, y *device.Tensor) *device.Tensor {
	if l == nil {
		return y
	}
	l.y = y
	return dev.MatMulNN("up", y, l.Up.W) // (T,D)
}

// OutBackward takes dy to what was combined.
func (l *Latent) OutBackward(dev *device.Device, dy *device.Tensor) *device.Tensor {
	if l == nil {
		return dy
	}
	// forward: out = y·Up
	dev.Accumulate("up.grad", l.Up, dev.MatMulTN("up.dw", l.y, dy)) // (L,D)
	return dev.MatMulNT("up.dx", dy, l.Up.W)                        // (T,L)
}

// InBackward takes the gradient of what was dispatched to x.
func (l *Latent) InBackward(dev *device.Device, d *device.Tensor) *device.Tensor {
	if l == nil {
		return d
	}
	// forward: in = x·Down
	dev.Accumulate("down.grad", l.Down, dev.MatMulTN("down.dw", l.x, d)) // (D,L)
	return dev.MatMulNT("down.dx", d, l.Down.W)                          // (T,D)
}
