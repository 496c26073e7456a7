package ssm

import (
	"firstbit/device"
	"firstbit/nn"
	"firstbit/parallel"
)

// Mamba is the Mamba-2 mixer.
//
//	z, xbc, raw = split(in·in_proj)
//	x, b, c     = split(silu(conv(xbc)))
//	dt          = softplus(raw + dt_bias) ;  A = −exp(a_log)
//	S_t = exp(dt_t·A)·S_{t−1} + dt_t·x_t⊗b_t ;  y_t = S_t·c_t + d·x_t
//	out = norm(y·silu(z))·out_proj
//
// A rank of TP has some of the groups, and rows of the tokens outside the projections; Config and weights are of its part. A
// rank of CP has consecutive steps of every sequence.
//
// Shapes: in (B·T,D), in_proj (D,I+C+H), conv (C,K), conv bias (C), dt_bias, a_log, d (H),
// norm (I), out_proj (I,D) → out (B·T,D). in_proj's columns lie group by group, a group's z, x, b, c and dt
// together, and the convolution's channels likewise (Config.Columns, Config.ConvChannels).
// Source: Dao & Gu 2024, "Transformers are SSMs"; docs/facts.md, Model.
type Mamba struct {
	Config
	InProj, Conv, ConvBias, DTBias, ALog, Skip, Norm, OutProj *nn.Param

	Eps   float64 // of the norm
	Batch int     // B, set by the model for each microbatch
	// Starts (B,T) is, of every step of whole sequences, the one that its document begins at; nil: sequences are documents. Set as Batch is.
	Starts *device.Tensor
	TP     parallel.Member
	CP     parallel.Member

	in, z, raw, xbc, conv  *device.Tensor
	before                 *device.Tensor // the steps of xbc before the rank's
	seq                    Sequence
	y, rstd, normed        *device.Tensor
	projected, convolution [3]*device.Tensor // what the splits made
}

// Params lists the weights in the order of the forward.
func (m *Mamba) Params() []*nn.Param {
	return []*nn.Param{m.InProj, m.Conv, m.ConvBias, m.DTBias, m.ALog, m.Skip, m.Norm, m.OutProj}
}

// Forward is the layer.
func (m *Mamba) Forward(dev *device.Device, in *device.Tensor) *device.Tensor {
	dev.CutColumns(m.TP.Index, m.TP.Size())
	m.in = m.TP.Gather(dev, "in_proj.gather", in, 1)
	p := nn.Fprop(m.in, m.InProj).Run(dev, "in_proj") // (B·T,I+C+H)
	nn.SplitGroups(dev, "split", p, m.projected[:], m.Groups, m.Inner(), m.Channels(), m.Heads)
	m.z, m.xbc, m.raw = m.projected[0], m.projected[1], m.projected[2]
	m.before = m.stepsBefore(dev, m.xbc)
	m.convolve(dev)
	m.timeStep(dev)
	m.seq.D, m.seq.Batch, m.seq.Groups, m.seq.Parts = m.Skip.W, m.Batch, m.Groups, m.CP.Size()
	m.seq.Begin = m.stateBefore(dev)
	m.seq.Starts, m.seq.First = m.Starts, m.firstStep()
	y, last := Scan(dev, &m.seq)
	m.y = y
	m.passState(dev, last)
	m.gate(dev)
	part := nn.Fprop(m.normed, m.OutProj).Over(m.TP.Size()).Run(dev, "out_proj")
	return m.TP.Scatter(dev, "out_proj.scatter", part, 1, in.Format)
}

// convolve is x, b, c = split(silu(conv(xbc))).
func (m *Mamba) convolve(dev *device.Device) {
	c := dev.Open("conv", convolution)
	c.Read("x", m.xbc)
	c.Read("w", m.Conv.W)
	c.ReadIf("before", m.before)
	c.Read("bias", m.ConvBias.W)
	readDocuments(c, m.Starts, m.firstStep())
	c.ReadScalar("batch", float64(m.Batch))
	m.conv = c.Write("y", m.xbc.Format, m.xbc.Shape()...)
	c.Do()

	c = dev.Open("conv.act", siluKernel)
	c.Read("x", m.conv)
	act := c.Write("y", m.conv.Format, m.conv.Shape()...)
	c.Do()

	shared := m.Groups * m.State
	nn.SplitGroups(dev, "conv.split", act, m.convolution[:], m.Groups, m.Inner(), shared, shared)
	m.seq.X, m.seq.B, m.seq.C = m.convolution[0], m.convolution[1], m.convolution[2]
}

func (m *Mamba) timeStep(dev *device.Device) {
	f := nn.MasterFormat(m.in.Format)
	c := dev.Open("dt", timeStepKernel)
	c.Read("raw", m.raw)
	c.Read("bias", m.DTBias.W)
	c.Read("a_log", m.ALog.W)
	c.ReadScalar("least", m.DTMin)
	m.seq.DT = c.Write("dt", f, m.raw.Shape()...)
	m.seq.LA = c.Write("la", f, m.raw.Shape()...)
	c.Do()
}

// Sequence is what the scan reads: whole sequences, or a part of each and what state it begins with.
//
// Shapes: X (B·T,H·P), B, C (B·T,G·N), DT, LA (B·T,H), D (H), Begin (B,H,P,N), nil at the beginning; Starts as in Mamba, or nil.
type Sequence struct {
	X, B, C, DT, LA, D, Begin *device.Tensor
	Batch, Groups             int
	Parts                     int // so many of T steps make a sequence; 0 is 1
	Starts                    *device.Tensor
	First                     int // step of the sequence, where Starts are
}

// Scan is the recurrence, a chunk of steps at a time.
//
//	S_t = exp(la_t)·S_{t−1} + dt_t·x_t⊗b_t ;  y_t = S_t·c_t + d·x_t
//
// Shapes: y (B·T,H·P), last (B,H,P,N), the state after the last step.
func Scan(dev *device.Device, s *Sequence) (y, last *device.Tensor) {
	c := dev.Open("scan", scan)
	s.read(c)
	y = c.Write("y", s.X.Format, s.X.Shape()...)
	h := s.D.Len()
	last = c.Write("last", nn.MasterFormat(s.X.Format), s.Batch, h, s.X.Cols()/h, s.B.Cols()/s.Groups)
	c.Do()
	return y, last
}

// read declares what the scan and its backward read.
func (s *Sequence) read(c *device.Call) {
	c.Read("x", s.X)
	c.Read("b", s.B)
	c.Read("c", s.C)
	c.Read("dt", s.DT)
	c.Read("la", s.LA)
	c.Read("d", s.D)
	c.ReadIf("begin", s.Begin)
	readDocuments(c, s.Starts, s.First)
	c.ReadScalar("batch", float64(s.Batch))
	c.ReadScalar("groups", float64(s.Groups))
	c.ReadScalar("steps", float64(s.X.Rows()/s.Batch*max(s.Parts, 1))) // of a whole sequence
}

// gate is norm(y·silu(z)).
func (m *Mamba) gate(dev *device.Device) {
	c := dev.Open("norm", gatedNormKernel)
	c.Read("x", m.y)
	c.Read("z", m.z)
	c.Read("w", m.Norm.W)
	c.ReadScalar("eps", m.Eps)
	m.normed = c.Write("y", m.y.Format, m.y.Shape()...)
	m.rstd = c.Write("rstd", nn.MasterFormat(m.y.Format), m.y.Rows(), m.Groups)
	c.Do()
}
