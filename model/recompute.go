package model

import "firstbit/device"

// runner takes a chain of blocks forward and backward.
type runner struct {
	recompute bool    // every block runs again before its backward, from its input alone
	lossScale float64 // weight of the losses that layers add of themselves
}

// forward runs blocks that are numbered from a number on.
func (r runner) forward(dev *device.Device, blocks []*Block, from int, x *device.Tensor) *device.Tensor {
	for i, b := range blocks {
		x = r.block(dev.In(layerScopes.At(from+i)), b, x)
	}
	return x
}

func (r runner) block(layer *device.Device, b *Block, x *device.Tensor) *device.Tensor {
	b.in, b.out = x, b.Forward(layer, x)
	module(layer, "block", b.in, b.out)
	return b.out
}

func (r runner) backward(dev *device.Device, blocks []*Block, from int, dy *device.Tensor) *device.Tensor {
	for i := len(blocks) - 1; i >= 0; i-- {
		layer, b := dev.In(layerScopes.At(from+i)), blocks[i]
		if r.recompute {
			layer.Enter(device.Rec)
			kept := b.out
			recomputed(layer, kept, r.block(layer, b, b.in))
			layer.Enter(device.Bwd)
		}
		dx := b.Backward(layer, dy, r.lossScale)
		module(layer, "block", dy, dx)
		dy = dx
	}
	return dy
}

var recomputeKernel = &device.Kernel{Name: "recompute", In: device.Names("fwd"), Out: device.Names("rec")}

// recomputed shows what the forward made beside what was made again; they must be equal.
func recomputed(dev *device.Device, forward, again *device.Tensor) {
	c := dev.OpenKind(device.Recompute, "recompute", recomputeKernel)
	c.Read("fwd", forward)
	c.Update("rec", again)
	c.Do()
}
