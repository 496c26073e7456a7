package model

import (
	"firstbit/device"
	"firstbit/moe"
	"firstbit/nn"
)

// Block is y = x + dropout(mixer(norm(x))).
type Block struct {
	Norm    RMSNorm
	Mixer   mixer
	Dropout *nn.Mask // nil: none

	in, out *device.Tensor // of the last run, for a recomputation
}

// mixer is what a pattern letter stands for. lossScale weighs the losses a layer adds of itself.
type mixer interface {
	Forward(dev *device.Device, x *device.Tensor) *device.Tensor
	Backward(dev *device.Device, dy *device.Tensor, lossScale float64) *device.Tensor
	Params() []*nn.Param
	Scope() string
}

// Forward is the block.
func (b *Block) Forward(dev *device.Device, x *device.Tensor) *device.Tensor {
	y := b.Mixer.Forward(dev.In(b.Mixer.Scope()), b.Norm.Forward(dev, x))
	return nn.Sum(dev, "y", x, b.Dropout.Forward(dev, y))
}

// Backward takes dy to the block's input.
func (b *Block) Backward(dev *device.Device, dy *device.Tensor, lossScale float64) *device.Tensor {
	// forward: y = x + dropout(mixer(norm(x)))
	dn := b.Mixer.Backward(dev.In(b.Mixer.Scope()), b.Dropout.Backward(dev, dy), lossScale)
	// x feeds the residual and the norm; their gradients meet here, in this order.
	return nn.Sum(dev, "dx", dy, b.Norm.Backward(dev, dn))
}

// plain is a mixer that adds no loss.
type plain struct {
	moe.Mixer
	scope string
}

func (p plain) Backward(dev *device.Device, dy *device.Tensor, _ float64) *device.Tensor {
	return p.Mixer.Backward(dev, dy)
}

func (p plain) Scope() string { return p.scope }

type experts struct{ *moe.MoE }

func (experts) Scope() string { return "moe" }
