package model

import (
	"slices"

	"github.com/tidwall/match"

	"firstbit/device"
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
