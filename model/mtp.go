package model

import (
	"fmt"

	"firstbit/device"
	"firstbit/nn"
)

// MTPConfig is multi-token prediction: what stands after '/' in the pattern predicts tokens
// further ahead.
type MTPConfig struct {
	Depths   int     `json:"depths"`   // further tokens predicted
	Repeated bool    `json:"repeated"` // every depth has the weights of the first
	Factor   float64 `json:"factor"`   // weight of the mean of the depths' losses
}

func (c MTPConfig) validate() error {
	switch {
	case c.Depths < 1 || c.Depths > 16:
		return fmt.Errorf("model.mtp.depths: %d: must be from 1 to 16", c.Depths)
	case !(c.Factor > 0):
		return fmt.Errorf("model.mtp.factor: %g: must be above 0", c.Factor)
	}
	return nil
}

// Depth predicts one more token: at depth k, position t sees token t+k and what the depth before
// knew at t, and predicts token t+k+1.
//
//	h'_t = norm(layers([enorm(embed(token_{t+k})), hnorm(h_t)]·proj))
//
// Shapes: h (B·T,D), proj (2·D,D) → h' (B·T,D).
// Source: docs/facts.md, Model; DeepSeek-AI 2024, "DeepSeek-V3 technical report", §2.2.
type Depth struct {
	Embed              Embedding
	ENorm, HNorm, Norm RMSNorm
	Proj               *nn.Param
	Blocks             []*Block
	Head               Head

	joined *device.Tensor
	halves [2]*device.Tensor
}

// Forward returns what the depth knows, and its loss.
func (d *Depth) Forward(dev *device.Device, h, ids, labels *device.Tensor, run runner) (out, loss *device.Tensor) {
	e := d.ENorm.Forward(dev.In("enorm"), d.Embed.Forward(dev, ids))
	d.joined = nn.Concat(dev, "join", e, d.HNorm.Forward(dev.In("hnorm"), h)) // (B·T,2·D)
	x := nn.Fprop(d.joined, d.Proj).Run(dev, "proj")
	out = d.Norm.Forward(dev, run.forward(dev, d.Blocks, 0, x))
	loss, _ = d.Head.Forward(dev, out, labels)
	return out, loss
}

// Backward returns the gradient of h. dout is that of the depth's output from the depth that
// follows, nil for the last; scale weighs each label's loss.
func (d *Depth) Backward(dev *device.Device, dout *device.Tensor, scale float64, run runner) *device.Tensor {
	// forward: the output feeds the head and the next depth; their gradients meet here, in this order.
	dy := d.Head.Backward(dev, scale)
	if dout != nil {
		dy = nn.Sum(dev, "out.dx", dy, dout)
	}
	dx := run.backward(dev, d.Blocks, 0, d.Norm.Backward(dev, dy))
	// forward: x = [e, h]·proj
	nn.Accumulate(dev, "proj.grad", d.Proj, nn.Wgrad(d.joined, dx, d.Proj).Run(dev, "proj.dw"))
	joined := nn.Dgrad(dx, d.Proj).Run(dev, "proj.dx")
	nn.Split(dev, "join.dx", joined, d.halves[:], d.ENorm.W.W.Len(), d.HNorm.W.W.Len())
	d.Embed.Backward(dev, d.ENorm.Backward(dev.In("enorm"), d.halves[0]))
	return d.HNorm.Backward(dev.In("hnorm"), d.halves[1])
}
