package model

import (
	"slices"

	"github.com/tidwall/match"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/quant"
)

// QuantiseLinear has the products of linear layers run on quantised operands, but of those whose weights have names that match a
// GLOB of high. It comes before the first piece.
func (w *Weights) QuantiseLinear(r *quant.Recipe, high []string) { w.quant, w.high = r, high }

// RoundingStream is the stream of stochastic rounding, which initialisation seeds like the others.
func (w *Weights) RoundingStream() *nn.Stream { return w.stream("sr", true) }

func (w *Weights) quantised(p *nn.Param) {
	if w.quant == nil || slices.ContainsFunc(w.high, func(glob string) bool { return match.Match(p.Name, glob) }) {
		return
	}
	quant.Quantise(p, w.quant)
}

// Linear tells whether a weight is one of a linear layer.
func (w *Weights) Linear(p *nn.Param) bool {
	i := slices.Index(w.params, p)
	return i >= 0 && w.initials[i].linear
}

// Quantise makes the copies of every weight from its master.
func (w *Weights) Quantise(dev *device.Device) {
	if w.quant == nil {
		return
	}
	for _, p := range w.params {
		quant.Update(dev, p)
	}
}

// Delayed lists the scales that follow from earlier steps.
func (w *Weights) Delayed() (all []*quant.Delayed) {
	for _, p := range w.params {
		if q := quant.Of(p); q != nil && q.X != nil {
			all = append(all, q.X, q.W, q.DY)
		}
	}
	return all
}

// place tells the quantiser of a weight of which tokens the rows are that a rank multiplies with it, and over whom an amax is one of a whole
// sequence or weight, where bits must not depend on the layout.
func (w *Weights) place(p *nn.Param) {
	q := quant.Of(p)
	if q == nil || q.Micro == nil {
		return
	}
	r := w.rank
	s := &quant.Shared{Microbatch: *q.Micro, Data: r.DP().Index, Sources: 1, Rows: r.Micro().Largest, Whole: r.TP().Largest}
	if cuts := p.Place.Cuts; len(cuts) > 0 && cuts[len(cuts)-1].Dim == len(p.Place.Whole)-1 {
		s.Column = cuts[len(cuts)-1].Part * p.W.Cols()
	}
	q.Shared = s
	if p.Expert {
		s.Sources = r.Shares(p, true).Sources
		if s.Data = s.Data / s.Sources * s.Sources; r.Experts().Size() > r.Micro().Size() {
			s.Rows = r.Experts().Largest
		}
		s.Column = 0 // experts' products are whole
		s.Expert, s.Whole = r.EP().Index*p.W.Dim(0), r.ETP().Largest
		return
	}
	tokens := s.Seq / r.CP().Size() // of the rank's part of a sequence
	rows, first := s.Batch*tokens, 0
	if p.Sequence {
		rows /= r.TP().Size()
		first = r.TP().Index * rows
	}
	s.Tokens = device.NewTensor(lowp.INT32, rows)
	for i := range rows {
		s.Tokens.I32()[i] = int32((first+i)/tokens*s.Seq + r.CP().Index*tokens + (first+i)%tokens)
	}
}
