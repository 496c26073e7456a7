package device

import (
	"strings"

	"firstbit/kernel"
	"firstbit/lowp"
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
}

// Packed is a quantised copy of a tensor: codes, as the values that they stand for, and scales. Where scales have two
// levels, Global is the tensor's amax.
type Packed struct{ Codes, Scales, Global *Tensor }

// Quantised is what a linear layer has besides its weight if its products run on quantised operands.
type Quantised struct {
	*Recipe
	Fprop, Dgrad Packed // copies of the weight for y = x·W and for dx = dy·Wᵀ; the same tensors where one serves both

	X, W, DY *Delayed // nil unless scaling is delayed

	labels map[string]*operandLabels
	names  [4]string // of the Calls that quantise the weight
}

// Quantise has the products of a weight run on quantised operands.
//
// Shapes: the weight (D,F), or (E,D,F) of experts, each of which is scaled by itself.
func (p *Param) Quantise(r *Recipe) {
	q := &Quantised{Recipe: r, labels: map[string]*operandLabels{}}
	shape, e := p.W.Shape(), 1
	if len(shape) == 3 {
		e = shape[0]
	}
	lead, d, f := shape[:len(shape)-2], shape[len(shape)-2], shape[len(shape)-1]
	under := func(sizes ...int) []int { return append(append([]int(nil), lead...), sizes...) }
	switch r.Scheme {
	case FP8:
		q.Fprop = Packed{Codes: NewTensor(lowp.E4M3, shape...), Scales: NewTensor(lowp.FP32, e)}
		q.Dgrad = q.Fprop
	case MXFP8:
		q.Fprop = Packed{Codes: NewTensor(lowp.E4M3, shape...), Scales: NewTensor(lowp.E8M0, under(blocks(d, kernel.MXBlock), f)...)}
		q.Dgrad = Packed{Codes: NewTensor(lowp.E4M3, shape...), Scales: NewTensor(lowp.E8M0, under(d, blocks(f, kernel.MXBlock))...)}
	case NVFP4:
		q.Fprop = Packed{Codes: NewTensor(lowp.E2M1, shape...), Global: NewTensor(lowp.FP32, e),
			Scales: NewTensor(lowp.E4M3, under(blocks(d, kernel.NVBlock), blocks(f, kernel.NVBlock))...)}
		q.Dgrad = q.Fprop
	}
	if r.Scheme == FP8 && r.History > 0 {
		q.X, q.W, q.DY = newDelayed(p.Name+".x", r.History, false), newDelayed(p.Name+".w", r.History, false), newDelayed(p.Name+".dy", r.History, true)
	}
	q.names = [...]string{p.Name, p.Name + ".fprop", p.Name + ".dgrad", p.Name + ".amax"}
	p.Quant = q
}

func blocks(n, size int) int { return (n + size - 1) / size }

// operandLabels name the Calls that quantise what a product reads.
type operandLabels struct{ x, dy, xdw, dydw, xAmax, dyAmax, dyWords, dydwWords string }

// of are the labels of a product: y, y.dx and y.dw have the operands y.x and y.dy.
func (q *Quantised) of(label string) *operandLabels {
	l := q.labels[label]
	if l == nil {
		y := strings.TrimSuffix(strings.TrimSuffix(label, ".dx"), ".dw")
		l = &operandLabels{y + ".x.quant", y + ".dy.quant", y + ".x.quant.dw", y + ".dy.quant.dw", y + ".x.amax", y + ".dy.amax", y + ".dy.words", y + ".dy.words.dw"}
		q.labels[label] = l
	}
	return l
}

// QuantiseWeight makes the copies of a weight anew, from its master. It is the one way in which they come about: after initialisation,
// after an update and after a restore.
func (d *Device) QuantiseWeight(p *Param) {
	q := p.Quant
	if q == nil {
		return
	}
	switch q.Scheme {
	case FP8:
		if q.W != nil {
			d.amax(q.names[3], p.Master, q.W, true)
		}
		d.quantiseWeight(q.names[0], weightScaled, p, q.Fprop)
	case MXFP8:
		d.quantiseWeight(q.names[1], weightMXColumns[q.rule()], p, q.Fprop)
		d.quantiseWeight(q.names[2], weightMXRows[q.rule()], p, q.Dgrad)
	case NVFP4:
		d.quantiseWeight(q.names[0], weightNVSquare, p, q.Fprop)
	}
}

func (d *Device) quantiseWeight(label string, k *Kernel, p *Param, to Packed) {
	kind := Op
	if d.phase == Load {
		kind = Loading
	}
	c := d.OpenKind(kind, label, k)
	c.Read("x", p.Master)
	c.Read("w", p.W)
	if p.Quant.W != nil {
		c.Read("scale", p.Quant.W.Scale)
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
func (q *Quantised) Activation(d *Device, label string, x *Tensor) Packed {
	l := q.of(label)
	if q.X != nil && d.phase != Rec { // what a recomputation sees was seen
		d.amax(l.xAmax, x, q.X, false)
	}
	return q.rows(d, l.x, x, nil, q.X, lowp.E4M3)
}

// Gradient is dy quantised for dx = dy·Wᵀ.
func (q *Quantised) Gradient(d *Device, label string, dy *Tensor) Packed {
	l := q.of(label)
	if c := d.ran(d.phase, l.dy); c != nil {
		return packedOf(c)
	}
	if q.DY != nil {
		d.amax(l.dyAmax, dy, q.DY, false)
	}
	return q.rows(d, l.dy, dy, q.words(d, l.dyWords, dy), q.DY, lowp.E5M2)
}

// rows is the copy with blocks along rows; one scale for all serves products in either direction.
func (q *Quantised) rows(d *Device, label string, x, words *Tensor, delayed *Delayed, fp8 lowp.Format) Packed {
	switch q.Scheme {
	case MXFP8:
		return d.quantise(label, quantMXRows[q.rule()], x, nil, nil, nil, lowp.E4M3, lowp.E8M0, x.Rows(), blocks(x.Cols(), kernel.MXBlock))
	case NVFP4:
		return d.quantise(label, quantNVRows, x, nil, words, nil, lowp.E2M1, lowp.E4M3, x.Rows(), blocks(x.Cols(), kernel.NVBlock))
	}
	var scale *Tensor
	if delayed != nil {
		scale = delayed.Scale
	}
	return d.quantise(label, quantScaled[fp8], x, nil, nil, scale, fp8, lowp.FP32, 1)
}

// ForWeight are x and dy quantised for dW = xᵀ·dy, with blocks along the tokens: of each expert by itself, whose rows lie as
// offsets say, or of one weight.
func (q *Quantised) ForWeight(d *Device, label string, x, dy, offsets *Tensor) (px, pdy Packed) {
	l := q.of(label)
	if q.Scheme == FP8 {
		c := d.ran(Rec, l.x)
		if c == nil {
			c = d.ran(Fwd, l.x)
		}
		return packedOf(c), q.Gradient(d, label, dy)
	}
	return q.columns(d, l.xdw, x, offsets, nil), q.columns(d, l.dydw, dy, offsets, q.words(d, l.dydwWords, dy))
}

func (q *Quantised) columns(d *Device, label string, x, offsets, words *Tensor) Packed {
	most := func(size int) int { // experts may each have a block that is not whole
		if offsets == nil {
			return blocks(x.Rows(), size)
		}
		return x.Rows()/size + offsets.Len() - 1
	}
	if q.Scheme == MXFP8 {
		return d.quantise(label, quantMXColumns[q.rule()], x, offsets, nil, nil, lowp.E4M3, lowp.E8M0, most(kernel.MXBlock), x.Cols())
	}
	return d.quantise(label, quantNVColumns, x, offsets, words, nil, lowp.E2M1, lowp.E4M3, most(kernel.NVBlock), x.Cols())
}

func (q *Quantised) words(d *Device, label string, x *Tensor) *Tensor {
	if q.Words == nil {
		return nil
	}
	return q.Words.draw(d, label, x)
}

// quantise runs a quantiser on an activation or a gradient.
func (d *Device) quantise(label string, k *Kernel, x, offsets, words, scale *Tensor, codes, scales lowp.Format, extents ...int) Packed {
	c := d.Open(label, k)
	c.Read("x", x)
	readIf(c, "offsets", offsets)
	readIf(c, "words", words)
	readIf(c, "scale", scale)
	p := Packed{Codes: c.Write("packed", codes, x.Shape()...)}
	p.Scales = c.Write("scales", scales, extents...)
	if codes == lowp.E2M1 {
		p.Global = c.Write("global", lowp.FP32, 1)
	}
	c.Do()
	return p
}

func readIf(c *Call, name string, t *Tensor) {
	if t != nil {
		c.Read(name, t)
	}
}

// ran is the Call of a label if it ran in that phase of this microbatch.
func (d *Device) ran(phase Phase, label string) *Call {
	c := d.calls[phase][label]
	if c == nil || c.stamp != d.stamp() {
		return nil
	}
	return c
}

func packedOf(c *Call) Packed {
	if c == nil {
		panic("device: the forward has not quantised what the backward reads")
	}
	p := Packed{Codes: c.Out[0].Tensor, Scales: c.Out[1].Tensor}
	if len(c.Out) > 2 {
		p.Global = c.Out[2].Tensor
	}
	return p
}
