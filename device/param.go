package device

import "firstbit/lowp"

// Param is a weight with its gradient.
type Param struct {
	Name   string
	W      *Tensor // what kernels read, in the format of the precision recipe
	Master *Tensor // the full-precision weight; W itself when the formats are the same
	Grad   *Tensor // accumulated over uses and microbatches at Master's width
	Decay  bool    // weight decay applies
	filled bool    // Grad holds something of this step

	// Apart keeps a gradient for each use of a step in Uses, so that they can be added over
	// microbatches and ranks before they meet.
	Apart bool
	Uses  []*Use
	used  int   // of the microbatch at hand
	stamp int64 // which one that is
}

// NewParam makes a Param of zeros.
func NewParam(name string, f lowp.Format, decay bool, shape ...int) *Param {
	m := MasterFormat(f)
	p := &Param{Name: name, W: NewTensor(f, shape...), Grad: NewTensor(m, shape...), Decay: decay}
	p.Master = p.W
	if m != f {
		p.Master = NewTensor(m, shape...)
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
	p.filled = false
	for _, u := range p.Uses {
		u.n = 0
	}
}
