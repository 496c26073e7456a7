// Package quant has quantised operands: copies of weights, activations and gradients in few bits, and the products that read them.
package quant

import (
	"strings"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
)

// Scheme is a family of scaled formats.
type Scheme uint8

// The schemes.
const (
	FP8   Scheme = iota // e4m3 forward and e5m2 backward, one scale a tensor
	MXFP8               // e4m3, a power of two for every 32
	NVFP4               // e2m1, an e4m3 scale for every 16 under one for the tensor
)

// Formats are those of codes, forward and backward where they differ, and of scales.
func (s Scheme) Formats() string {
	return [...]string{"e4m3, e5m2, fp32", "e4m3, e8m0", "e2m1, e4m3, fp32"}[s]
}

// Recipe says how the operands of linear layers are quantised.
//
// Every copy is made from the full-precision source: blocks lie along the dimension that a product reduces, so
// the same tensor has one copy for y = x·W or dx = dy·Wᵀ and another for dW = xᵀ·dy.
type Recipe struct {
	Scheme  Scheme
	Floor   bool   // MXFP8: scales by OCP's rule, which rounds down
	History int    // FP8: the steps whose amax decides the next scale; 0: a tensor's own amax does
	Words   *Words // NVFP4: what gradients are rounded by

	Micro *Microbatch // nil: bits may depend on the layout
}

// Packed is a quantised copy of a tensor: codes, as the values that they stand for, and scales. Where scales have two
// levels, Global is the tensor's amax.
type Packed struct{ Codes, Scales, Global *device.Tensor }

// Weight is what a linear layer has besides its weight if its products run on quantised operands. It is the weight's nn.Quantiser.
type Weight struct {
	*Recipe
	Fprop, Dgrad Packed // copies of the weight for y = x·W and for dx = dy·Wᵀ; the same tensors where one serves both

	X, W, DY *Delayed // nil unless scaling is delayed
	*Shared           // nil: bits may depend on the layout

	labels map[string]*operandLabels
	names  [5]string // of the Calls that quantise the weight
}

// Quantise has the products of a weight run on quantised operands.
//
// Shapes: the weight (D,F), or (E,D,F) of experts, each of which is scaled by itself.
func Quantise(p *nn.Param, r *Recipe) {
	q := &Weight{Recipe: r, labels: map[string]*operandLabels{}}
	shape, e := p.W.Shape(), 1
	if len(shape) == 3 {
		e = shape[0]
	}
	lead, d, f := shape[:len(shape)-2], shape[len(shape)-2], shape[len(shape)-1]
	under := func(sizes ...int) []int { return append(append([]int(nil), lead...), sizes...) }
	switch r.Scheme {
	case FP8:
		q.Fprop = Packed{Codes: device.NewTensor(lowp.E4M3, shape...), Scales: device.NewTensor(lowp.FP32, e)}
		q.Dgrad = q.Fprop
	case MXFP8:
		q.Fprop = Packed{Codes: device.NewTensor(lowp.E4M3, shape...), Scales: device.NewTensor(lowp.E8M0, under(blocks(d, mxBlock), f)...)}
		q.Dgrad = Packed{Codes: device.NewTensor(lowp.E4M3, shape...), Scales: device.NewTensor(lowp.E8M0, under(d, blocks(f, mxBlock))...)}
	case NVFP4:
		q.Fprop = Packed{Codes: device.NewTensor(lowp.E2M1, shape...), Global: device.NewTensor(lowp.FP32, e),
			Scales: device.NewTensor(lowp.E4M3, under(blocks(d, nvBlock), blocks(f, nvBlock))...)}
		q.Dgrad = q.Fprop
	}
	if r.Scheme == FP8 && r.History > 0 {
		forward, backward := delayedE4M3, delayedE5M2
		if r.Micro != nil {
			forward, backward = powerE4M3, powerE5M2
		}
		q.X, q.W, q.DY = newDelayed(p.Name+".x", r.History, forward), newDelayed(p.Name+".w", r.History, forward), newDelayed(p.Name+".dy", r.History, backward)
	}
	q.names = [...]string{p.Name, p.Name + ".fprop", p.Name + ".dgrad", p.Name + ".amax", p.Name + ".amax.max"}
	p.Quant = q
}

func blocks(n, size int) int { return (n + size - 1) / size }

// operandLabels name the Calls that quantise what a product reads: x and dy, and for the weight's gradient x and dy along the tokens.
type operandLabels struct{ x, dy, xdw, dydw operand }

// operand names the Calls that quantise one operand.
type operand struct{ quant, amax, most, words, hadamard string }

// of are the labels of a product: y, y.dx and y.dw have the operands y.x and y.dy.
func (q *Weight) of(label string) *operandLabels {
	l := q.labels[label]
	if l == nil {
		y := strings.TrimSuffix(strings.TrimSuffix(label, ".dx"), ".dw")
		named := func(name, suffix string) operand {
			return operand{y + name + ".quant" + suffix, y + name + ".amax" + suffix, y + name + ".amax.max" + suffix, y + name + ".words" + suffix, y + name + ".hadamard" + suffix}
		}
		l = &operandLabels{named(".x", ""), named(".dy", ""), named(".x", ".dw"), named(".dy", ".dw")}
		q.labels[label] = l
	}
	return l
}

// Of is the quantiser of a weight; nil: its products run on the operands as they are.
func Of(p *nn.Param) *Weight {
	w, _ := p.Quant.(*Weight)
	return w
}

// Update makes the copies of a weight anew, from its master. It is the one way in which they come about: after initialisation,
// after an update and after a restore.
func Update(d *device.Device, p *nn.Param) {
	q := Of(p)
	if q == nil {
		return
	}
	switch {
	case q.W != nil:
		countAmax(d, q.names[3], p.Master, q.W, true)
		quantiseWeight(d, q.names[0], quantScaled[lowp.E4M3], p, q.Fprop, nil)
	case q.Scheme == MXFP8:
		quantiseWeight(d, q.names[1], quantMXColumns[q.rule()], p, q.Fprop, nil)
		quantiseWeight(d, q.names[2], quantMXRows[q.rule()], p, q.Dgrad, nil)
	case q.Shared != nil:
		quantiseWeight(d, q.names[0], map[Scheme]*device.Kernel{FP8: scaledWeight, NVFP4: nvSquareWhole}[q.Scheme], p, q.Fprop, q.amaxOfWeight(d, p))
	case q.Scheme == FP8:
		quantiseWeight(d, q.names[0], quantScaled[lowp.E4M3], p, q.Fprop, nil)
	default:
		quantiseWeight(d, q.names[0], quantNVSquare, p, q.Fprop, nil)
	}
}

// amaxOfWeight is that of the whole weight, or of each of the rank's experts.
func (q *Weight) amaxOfWeight(d *device.Device, p *nn.Param) *device.Tensor {
	c := openWeight(d, q.names[3], amaxWeight)
	c.Read("x", p.Master)
	n := 1
	if shape := p.W.Shape(); len(shape) == 3 {
		n = shape[0]
	}
	amax := c.Write("amax", lowp.FP32, n)
	c.Do()
	return q.Whole(d, q.names[4], amax)
}

func openWeight(d *device.Device, label string, k *device.Kernel) *device.Call {
	kind := device.Op
	if d.Phase() == device.Load {
		kind = device.Loading
	}
	return d.OpenKind(kind, label, k)
}

func quantiseWeight(d *device.Device, label string, k *device.Kernel, p *nn.Param, to Packed, amax *device.Tensor) {
	c := openWeight(d, label, k)
	c.Read("x", p.Master)
	c.ReadIf("amax", amax)
	if w := Of(p).W; w != nil {
		c.Read("scale", w.Scale)
	}
	c.Update("packed", to.Codes)
	c.Update("scales", to.Scales)
	if to.Global != nil {
		c.Update("global", to.Global)
	}
	c.Do()
}

// rule is the index of the rule of scales.
func (r *Recipe) rule() int {
	if r.Floor {
		return 1
	}
	return 0
}

// Activation is x quantised for y = x·W.
func (q *Weight) Activation(d *device.Device, label string, x *device.Tensor, of Rows) Packed {
	l := &q.of(label).x
	if q.X != nil && d.Phase() != device.Rec { // what a recomputation sees was seen
		countAmax(d, l.amax, x, q.X, false)
	}
	return q.rows(d, l, x, nil, q.X, lowp.E4M3, of)
}

// Gradient is dy quantised for dx = dy·Wᵀ.
func (q *Weight) Gradient(d *device.Device, label string, dy *device.Tensor, of Rows) Packed {
	l := &q.of(label).dy
	if c := d.Ran(d.Phase(), l.quant); c != nil {
		return packedOf(c)
	}
	if q.DY != nil {
		countAmax(d, l.amax, dy, q.DY, false)
	}
	return q.rows(d, l, dy, q.words(d, l, dy, of), q.DY, lowp.E5M2, of)
}

// rows is the copy with blocks along rows; one scale for all, or for a sequence, serves products in either direction.
func (q *Weight) rows(d *device.Device, l *operand, x, words *device.Tensor, delayed *Delayed, fp8 lowp.Format, of Rows) Packed {
	switch {
	case q.Scheme == MXFP8:
		return quantise(d, l.quant, quantMXRows[q.rule()], x, nil, nil, nil, lowp.E4M3, lowp.E8M0, x.Rows(), blocks(x.Cols(), mxBlock))
	case q.Scheme == NVFP4 && q.Shared != nil:
		return q.bySequence(d, nvRowsBy, l, x, words, of, lowp.E2M1, x.Rows(), blocks(x.Cols(), nvBlock))
	case q.Scheme == NVFP4:
		return quantise(d, l.quant, quantNVRows, x, nil, words, nil, lowp.E2M1, lowp.E4M3, x.Rows(), blocks(x.Cols(), nvBlock))
	case delayed != nil:
		return quantise(d, l.quant, quantScaled[fp8], x, nil, nil, delayed.Scale, fp8, lowp.FP32, 1)
	case q.Shared != nil:
		return q.bySequence(d, scaledBy[fp8], l, x, nil, of, fp8)
	}
	return quantise(d, l.quant, quantScaled[fp8], x, nil, nil, nil, fp8, lowp.FP32, 1)
}

// ForWeight are x and dy quantised for dW = xᵀ·dy, with blocks along the tokens: of each expert by itself, whose rows lie as
// offsets say, or of one weight.
func (q *Weight) ForWeight(d *device.Device, label string, x, dy, offsets *device.Tensor, of Rows) (px, pdy Packed) {
	l := q.of(label)
	if q.Scheme == FP8 {
		c := d.Ran(device.Rec, l.x.quant)
		if c == nil {
			c = d.Ran(device.Fwd, l.x.quant)
		}
		return packedOf(c), q.Gradient(d, label, dy, of)
	}
	return q.columns(d, &l.xdw, x, offsets, nil, of), q.columns(d, &l.dydw, dy, offsets, q.words(d, &l.dydw, dy, of), of)
}

// Block is the number of elements under one scale; 0: a whole tensor or sequence has one.
func (s Scheme) Block() int { return [...]int{FP8: 0, MXFP8: mxBlock, NVFP4: nvBlock}[s] }

func (q *Weight) columns(d *device.Device, l *operand, x, offsets, words *device.Tensor, of Rows) Packed {
	most := func(size int) int { // experts may each have a block that is not whole
		if offsets == nil {
			return blocks(x.Rows(), size)
		}
		return x.Rows()/size + offsets.Len() - 1
	}
	switch {
	case q.Scheme == MXFP8:
		return quantise(d, l.quant, quantMXColumns[q.rule()], x, offsets, nil, nil, lowp.E4M3, lowp.E8M0, most(mxBlock), x.Cols())
	case q.Shared != nil:
		return q.bySequence(d, nvColumnsBy, l, transformed(d, l.hadamard, x), words, of, lowp.E2M1, x.Rows()/nvBlock, x.Cols())
	}
	return quantise(d, l.quant, quantNVColumns, x, offsets, words, nil, lowp.E2M1, lowp.E4M3, most(nvBlock), x.Cols())
}

func (q *Weight) words(d *device.Device, l *operand, x *device.Tensor, of Rows) *device.Tensor {
	switch {
	case q.Words == nil:
		return nil
	case q.Shared != nil:
		return q.Words.drawByToken(d, l.words, x, of, q.Shared)
	}
	return q.Words.draw(d, l.words, x)
}

// quantise runs a quantiser on an activation or a gradient.
func quantise(d *device.Device, label string, k *device.Kernel, x, offsets, words, scale *device.Tensor, codes, scales lowp.Format, extents ...int) Packed {
	c := d.Open(label, k)
	c.Read("x", x)
	c.ReadIf("offsets", offsets)
	c.ReadIf("words", words)
	c.ReadIf("scale", scale)
	p := Packed{Codes: c.Write("packed", codes, x.Shape()...)}
	p.Scales = c.Write("scales", scales, extents...)
	if codes == lowp.E2M1 {
		p.Global = c.Write("global", lowp.FP32, 1)
	}
	c.Do()
	return p
}

func packedOf(c *device.Call) Packed {
	if c == nil {
		panic("quant: the forward has not quantised what the backward reads")
	}
	p := Packed{Codes: c.Output("packed"), Scales: c.Output("scales")}
	if p.Codes.Format == lowp.E2M1 {
		p.Global = c.Output("global")
	}
	return p
}
