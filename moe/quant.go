package moe

import (
	"firstbit/device"
	"firstbit/kernel"
	"firstbit/lowp"
	"firstbit/quant"
)

// The grouped products on quantised operands. Rows are quantised all together, or in blocks of a row, or, for a weight's gradient, in
// blocks of the rows of one expert; weights by expert.

var (
	quantNN           = groupedNN.Taking(device.Names("x w offsets x.scales x.global? w.scales w.global?"), device.ArgNames{}, runQuantNN)
	quantNT           = groupedNT.Taking(quantNN.In, device.ArgNames{}, runQuantNT)
	quantWeight       = groupedWeight.Taking(device.Names("x dy offsets x.scales x.global? dy.scales dy.global?"), device.ArgNames{}, runQuantWeight)
	quantWeightSource = groupedWeightSource.Taking(device.Names("x dy bounds tokens x.scales x.global? dy.scales dy.global?"), groupedWeightSource.Scalars,
		runQuantWeightSource)
	quantDProb = groupedDProbKernel.Taking(device.Names("dy w2 h prob offsets dy.scales dy.global? w2.scales w2.global?"), groupedDProbKernel.Scalars, runQuantDProb)
)

// quantised is product on codes and scales.
func (x *Experts) quantised(dev *device.Device, label string, k *device.Kernel, in *device.Tensor, w *operand, f lowp.Format, n int) *device.Tensor {
	q := quant.Of(w.of)
	var rows, weight quant.Packed
	if k == groupedNT {
		rows, weight, k = q.Gradient(dev, label, in, x.rows()), w.dgrad, quantNT
	} else {
		rows, weight, k = q.Activation(dev, label, in, x.rows()), w.fprop, quantNN
	}
	c := dev.Open(label, k)
	c.Read("x", rows.Codes)
	c.Read("w", weight.Codes)
	c.Read("offsets", x.offsets)
	quant.ReadScales(c, "x", rows)
	quant.ReadScales(c, "w", weight)
	y := c.Write("y", f, in.Rows(), n)
	c.Do()
	return y
}

// quantisedWeight quantises the operands of a weight's gradient, and returns what makes it from the rows of one source.
func (x *Experts) quantisedWeight(dev *device.Device, of string, w *operand, in, dy *device.Tensor) func(dev *device.Device, label string, w *operand, _, _ *device.Tensor, source int) *device.Tensor {
	q := quant.Of(w.of)
	offsets, bounds, rows := x.offsets, x.bounds, x.rows()
	if size := q.Scheme.Block(); q.Shared != nil && size > 0 {
		b := x.blocksOf(dev, size)
		bounds, rows, offsets = b.bounds, quant.Rows{Tokens: b.tokens, Offsets: b.offsets}, nil
		in, dy = rowsBy(dev, of+".x.blocks", in, b.order), rowsBy(dev, of+".dy.blocks", dy, b.order)
	}
	px, pdy := q.ForWeight(dev, of, in, dy, offsets, rows)
	return func(dev *device.Device, label string, w *operand, _, _ *device.Tensor, source int) *device.Tensor {
		k := quantWeight
		if q.Shared != nil {
			k = quantWeightSource
		}
		c := dev.Open(label, k)
		c.Read("x", px.Codes)
		c.Read("dy", pdy.Codes)
		if q.Shared != nil {
			x.readSource(c, bounds, rows.Tokens, source)
		} else {
			c.Read("offsets", x.offsets)
		}
		quant.ReadScales(c, "x", px)
		quant.ReadScales(c, "dy", pdy)
		dw := c.Write("dw", w.of.Grad.Format, w.w.Shape()...)
		c.Do()
		return dw
	}
}

// runQuantWeightSource is quantWeight from the rows of one source. Rows come in whole blocks of tokens, or without any.
func runQuantWeightSource(c *device.Call) {
	x, dy := unpackTokens(c, "x"), unpackTokens(c, "dy")
	defer x.Release()
	defer dy.Release()
	sourceGradient(c, x.F32, dy.F32, func(n int) kernel.Fold { return c.Fold("rows", n) })
	if !quant.ByRow(c, "x") {
		quant.Rescale(c, c.Output("dw").F32(), "x", "dy", 0, 0)
	}
}

func unpackTokens(c *device.Call, name string) quant.Unpacked {
	if quant.ByRow(c, name) {
		return quant.UnpackRows(c, name)
	}
	return quant.Unpack(c, name, quant.AlongColumns, nil)
}

func runQuantNN(c *device.Call) { runQuantGrouped(c, "y", "x", "w", false) }
func runQuantNT(c *device.Call) { runQuantGrouped(c, "y", "x", "w", true) }

// runQuantGrouped is the product of rows x and weights w.
func runQuantGrouped(c *device.Call, out, x, w string, transposed bool) {
	way := quant.AlongColumns
	if transposed {
		way = quant.AlongRows
	}
	offsets := c.Input("offsets").I32()
	y, k, n := c.Output(out).F32(), c.Input(x).Cols(), c.Output(out).Cols()
	fold := c.Products("k", k, quant.Operands(c, x, w))
	if quant.Scaled(fold) {
		groupedScaled(c, y, x, w, way|quant.OfWeight, offsets, k, n, fold)
	} else {
		a, b := quant.Unpack(c, x, quant.AlongRows, nil), quant.Unpack(c, w, way|quant.OfWeight, nil)
		defer a.Release()
		defer b.Release()
		groupedMatMul(y, a.F32, b.F32, offsets, k, n, transposed, fold)
	}
	for e := range len(offsets) - 1 {
		quant.Rescale(c, y[int(offsets[e])*n:int(offsets[e+1])*n], x, w, int(offsets[e]), e)
	}
}

// groupedScaled is groupedMatMul on codes and scales.
func groupedScaled(c *device.Call, y []float32, x, w string, way quant.Along, offsets []int32, k, n int, fold kernel.Fold) {
	codes, weights := c.Input(x).F32(), c.Input(w).F32()
	for e := range len(offsets) - 1 {
		lo, hi := int(offsets[e]), int(offsets[e+1])
		if lo == hi {
			continue
		}
		we := kernel.RowMajor(weights[e*k*n:][:k*n], n)
		if way&quant.AlongColumns == 0 {
			we = kernel.RowMajor(weights[e*k*n:][:k*n], k).T()
		}
		kernel.MatMulScaled(y[lo*n:hi*n], n, kernel.RowMajor(codes[lo*k:hi*k], k), we,
			quant.Scales(c, x, quant.AlongRows, offsets, e), quant.Scales(c, w, way, nil, e), hi-lo, n, k, fold)
	}
}

func runQuantWeight(c *device.Call) {
	offsets, dw := c.Input("offsets").I32(), c.Output("dw").F32()
	rows := func(n int) kernel.Fold { return c.Products("rows", n, quant.Operands(c, "x", "dy")) }
	if quant.Scaled(rows(0)) {
		groupedScaledWeight(c, dw, offsets, rows)
	} else {
		a, b := quant.Unpack(c, "x", quant.AlongColumns, offsets), quant.Unpack(c, "dy", quant.AlongColumns, offsets)
		defer a.Release()
		defer b.Release()
		groupedMatMulWeight(dw, a.F32, b.F32, offsets, c.Input("x").Cols(), c.Input("dy").Cols(), rows)
	}
	quant.Rescale(c, dw, "x", "dy", 0, 0)
}

// groupedScaledWeight is groupedMatMulWeight on codes and scales.
func groupedScaledWeight(c *device.Call, dw []float32, offsets []int32, rows func(n int) kernel.Fold) {
	x, dy := c.Input("x"), c.Input("dy")
	m, n := x.Cols(), dy.Cols()
	for e := range len(offsets) - 1 {
		lo, hi := int(offsets[e]), int(offsets[e+1])
		a, b := kernel.RowMajor(x.F32()[lo*m:hi*m], m).T(), kernel.RowMajor(dy.F32()[lo*n:hi*n], n)
		kernel.MatMulScaled(dw[e*m*n:][:m*n], n, a, b,
			quant.Scales(c, "x", quant.AlongColumns, offsets, e), quant.Scales(c, "dy", quant.AlongColumns, offsets, e), m, n, hi-lo, rows(hi-lo))
	}
}

// readGradient declares what the kernel reads that takes dy to dh and dprob.
func (x *Experts) readGradient(dev *device.Device, dy *device.Tensor) *device.Call {
	q := quant.Of(x.W2)
	if q == nil {
		c := dev.Open("w2.dx", groupedDProbKernel)
		c.Read("dy", dy)
		c.Read("w2", x.w2.w)
		x.readEpilogue(c)
		return c
	}
	p := q.Gradient(dev, "w2.dx", dy, x.rows())
	c := dev.Open("w2.dx", quantDProb)
	c.Read("dy", p.Codes)
	c.Read("w2", x.w2.dgrad.Codes)
	x.readEpilogue(c)
	quant.ReadScales(c, "dy", p)
	quant.ReadScales(c, "w2", x.w2.dgrad)
	return c
}

func (x *Experts) readEpilogue(c *device.Call) {
	c.Read("h", x.h)
	c.Read("prob", x.prob)
	c.Read("offsets", x.offsets)
}

func runQuantDProb(c *device.Call) {
	runQuantGrouped(c, "dx", "dy", "w2", true)
	h, prob := c.Input("h"), c.Input("prob")
	dprobEpilogue(c, c.Output("dprob").F32(), c.Output("dx").F32(), h, prob, c.Input("offsets").I32(), h.Cols())
}
