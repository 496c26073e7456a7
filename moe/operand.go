package moe

import (
	"firstbit/device"
	"firstbit/nn"
	"firstbit/parallel"
	"firstbit/quant"
)

// operand is a weight of the experts as products read it: the rank's part, or the whole of its experts.
type operand struct {
	of           *nn.Param
	dim          int // that expert-tensor parallelism cuts
	w            *device.Tensor
	fprop, dgrad quant.Packed
}

// whole is a weight as the rank multiplies with it. A sum over the hidden width is a chain, of which no rank's part is a subtree: where bits must not
// depend on the layout, the ranks that have parts of it gather them.
func (x *Experts) whole(dev *device.Device, name string, p *nn.Param, dim int) operand {
	o := operand{of: p, dim: dim, w: p.W}
	q := quant.Of(p)
	if q != nil {
		o.fprop, o.dgrad = q.Fprop, q.Dgrad
	}
	if x.gathered.Size() == 1 {
		return o
	}
	if q == nil {
		o.w = x.gathered.GatherParts(dev, name+".parts", p.W, dim)
		return o
	}
	o.fprop = gatherPacked(dev, name+".fprop", x.gathered, q.Fprop, dim)
	if o.dgrad = o.fprop; q.Dgrad != q.Fprop {
		o.dgrad = gatherPacked(dev, name+".dgrad", x.gathered, q.Dgrad, dim)
	}
	o.w = o.fprop.Codes
	return o
}

// gatherPacked gathers a copy's codes, and the scales of their blocks. What there is one of for an expert all ranks have.
func gatherPacked(dev *device.Device, name string, m parallel.Member, p quant.Packed, dim int) quant.Packed {
	p.Codes = m.GatherParts(dev, name+".packed", p.Codes, dim)
	if len(p.Scales.Shape()) > 1 {
		p.Scales = m.GatherParts(dev, name+".scales", p.Scales, dim)
	}
	return p
}
