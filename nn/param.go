// Package nn has what layers are made of: weights with their gradients, products, sums, columns, masks and random streams.
package nn

import (
	"slices"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/state"
)

// Param is a weight with its gradient.
type Param struct {
	Name   string
	W      *device.Tensor // what kernels read, in the format of the precision recipe
	Master *device.Tensor // the full-precision weight; W itself when the formats are the same
	Grad   *device.Tensor // accumulated over uses and microbatches at Master's width
	Decay  bool           // weight decay applies

	// Accumulator is the mode in which Grad is accumulated: InOrder unless set before the first.
	Accumulator Accumulator

	// Used is how often a microbatch's backward adds to the gradient: once for each place of the network that uses the weight.
	Used int

	// Place is that of the rank's part in the whole weight.
	Place state.Place
	// Sequence: every tensor-parallel rank has the whole weight and a part of the tokens.
	Sequence bool
	// Expert: the weight lies on the ranks as the experts are folded over them.
	Expert bool
	// Ends: the first stage of a pipeline and the last both have the weight; their gradients add, and the first counts it.
	Ends bool

	// Join adds a microbatch's gradient over the ranks that share its sequences; nil: that waits for the end of the step.
	Join func(d *device.Device, label string, dw *device.Tensor) *device.Tensor

	// Added hears when Accumulate has added to Grad; nil: nobody waits for it.
	Added func()

	// Quant runs the products of the weight on quantised operands; nil: they run on the operands as they are.
	Quant Quantiser
}

// Quantiser runs the products of a weight on quantised copies of their operands.
type Quantiser interface {
	Multiply(dev *device.Device, label string, p Product) *device.Tensor
}

// NewParam makes a Param of zeros.
func NewParam(name string, f lowp.Format, decay bool, shape ...int) *Param {
	return NewPart(name, f, decay, shape)
}

// NewPart makes a Param of zeros; shape is that of the whole weight, which the cuts must divide.
func NewPart(name string, f lowp.Format, decay bool, shape []int, cuts ...state.Cut) *Param {
	place := state.Place{Whole: slices.Clone(shape), Cuts: cuts}
	if err := place.Check(); err != nil {
		panic("nn: no weight has such a shape and such cuts")
	}
	m, part := MasterFormat(f), place.Part()
	p := &Param{Name: name, W: device.NewTensor(f, part...), Grad: device.NewTensor(m, part...), Decay: decay, Accumulator: new(InOrder), Place: place}
	p.Master = p.W
	if m != f {
		p.Master = device.NewTensor(m, part...)
	}
	return p
}

// PartialFormat is the format in which each of so many ranks has its part of a sum that is kept in f: what one rank has is the sum.
func PartialFormat(f lowp.Format, ranks int) lowp.Format {
	if ranks == 1 {
		return f
	}
	return MasterFormat(f)
}

// MasterFormat is the format of masters, gradients and optimizer state beside weights in f.
func MasterFormat(f lowp.Format) lowp.Format {
	if f == lowp.FP64 {
		return lowp.FP64
	}
	return lowp.FP32
}

// ZeroGrad starts a new step: the next Accumulate writes instead of adding.
func (p *Param) ZeroGrad() { p.Accumulator.restart() }
