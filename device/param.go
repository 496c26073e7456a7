package device

import (
	"slices"

	"firstbit/lowp"
)

// Param is a weight with its gradient.
type Param struct {
	Name   string
	W      *Tensor // what kernels read, in the format of the precision recipe
	Master *Tensor // the full-precision weight; W itself when the formats are the same
	Grad   *Tensor // accumulated over uses and microbatches at Master's width
	Decay  bool    // weight decay applies
	adds   int     // how often Grad was added to in this step
	once   bool    // it is once in every step

	// Steady promises that Grad is added to as often in every step as in the first.
	Steady bool

	// Where a rank has a part of the weight, Whole is the shape of all of it and Cuts how the part is cut from it.
	Whole []int
	Cuts  []Cut
	// Sequence: every tensor-parallel rank has the whole weight and a part of the tokens.
	Sequence bool
	// Expert: the weight lies on the ranks as the experts are folded over them.
	Expert bool
	// Ends: the first stage of a pipeline and the last both have the weight; their gradients add, and the first counts it.
	Ends bool

	// Join adds a microbatch's gradient over the ranks that share its sequences; nil: that waits for the end of the step.
	Join func(d *Device, label string, dw *Tensor) *Tensor

	// Added hears when Accumulate has added to Grad; nil: nobody waits for it.
	Added func()

	// Quant is there if the products of the weight run on quantised operands.
	Quant *Quantised

	// Apart keeps a gradient for each use of a step in Uses, so that they can be added over
	// microbatches and ranks before they meet.
	Apart bool
	Uses  []*Use
	used  int   // of the microbatch at hand
	stamp int64 // which one that is
}

// Cut is one dimension of a weight of which a rank has one of several equal parts.
type Cut struct{ Dim, Part, Parts int }

// NewParam makes a Param of zeros.
func NewParam(name string, f lowp.Format, decay bool, shape ...int) *Param {
	return NewPart(name, f, decay, shape)
}

// NewPart makes a Param of zeros; shape is that of the whole weight, which the cuts must divide.
func NewPart(name string, f lowp.Format, decay bool, shape []int, cuts ...Cut) *Param {
	m := MasterFormat(f)
	part := slices.Clone(shape)
	for _, c := range cuts {
		if part[c.Dim]%c.Parts != 0 {
			panic("device: a cut does not divide the weight")
		}
		part[c.Dim] /= c.Parts
	}
	p := &Param{Name: name, W: NewTensor(f, part...), Grad: NewTensor(m, part...), Decay: decay, Whole: slices.Clone(shape), Cuts: cuts}
	p.Master = p.W
	if m != f {
		p.Master = NewTensor(m, part...)
	}
	return p
}

// MasterFormat is the format of masters, gradients and optimizer state beside weights in f.
func MasterFormat(f lowp.Format) lowp.Format {
	if f == lowp.FP64 {
		return lowp.FP64
	}
	return lowp.FP32
}

// ZeroGrad starts a new step: the next Accumulate writes instead of adding.
func (p *Param) ZeroGrad() {
	p.once, p.adds = p.Steady && p.adds == 1, 0
	for _, u := range p.Uses {
		for i := range u.sources {
			u.sources[i].n = 0
		}
	}
}

// Elements is the number of elements of the whole weight.
func (p *Param) Elements() int {
	n := 1
	for _, d := range p.Whole {
		n *= d
	}
	return n
}

// Index is where element i of the rank's part lies in the whole weight, row-major.
func (p *Param) Index(i int) int {
	if len(p.Cuts) == 0 {
		return i
	}
	at, stride := 0, 1
	for d := len(p.Whole) - 1; d >= 0; d-- {
		n := p.W.Dim(d)
		x := i % n
		i /= n
		for _, c := range p.Cuts {
			if c.Dim == d {
				x += c.Part * n
			}
		}
		at += x * stride
		stride *= p.Whole[d]
	}
	return at
}
