package quant

import (
	"sync"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/lowp"
	"firstbit/nn"
)

// Of quantised operands a product adds code values times the scales of their blocks, which is exact in float32, in the
// order of its plan, and multiplies the sum with what is the same for all of it:
//
//	FP8:   y = (Σ_k a·b)·(sa·sb)                                          s: what undoes the scale
//	MXFP8: y =  Σ_k (a·2^ea)·(b·2^eb)
//	NVFP4: y = (Σ_k (a·sa)·(b·sb))·(amax_a·amax_b·fl32(1/2688²))           2688 = 6·448
//
// Source: docs/facts.md, Low precision; TransformerEngine, whose alpha of NVFP4 products this is.

// Multiply runs a product on quantised operands.
func (w *Weight) Multiply(d *device.Device, label string, p nn.Product) *device.Tensor {
	var a, b Packed
	switch p.Form {
	case nn.NN:
		a, b = w.Activation(d, label, p.A, w.dense()), w.Fprop
	case nn.NT:
		a, b = w.Gradient(d, label, p.A, w.dense()), w.Dgrad
	case nn.TN:
		a, b = w.ForWeight(d, label, p.A, p.B, nil, w.dense())
	}
	p.A, p.B = a.Codes, b.Codes
	k := quantised[p.Form]
	if p.Shards > 0 {
		k = shardQuantised[p.Form]
	}
	c := p.Open(d, label, k)
	ReadScales(c, "a", a)
	ReadScales(c, "b", b)
	return p.Write(c)
}

// dense are the tokens of a dense weight's rows.
func (w *Weight) dense() Rows {
	if w.Shared == nil {
		return Rows{}
	}
	return Rows{Tokens: w.Tokens}
}

// ReadScales declares the scales of an input.
func ReadScales(c *device.Call, name string, p Packed) {
	c.Read(scalesOf[name], p.Scales)
	c.ReadIf(globalOf[name], p.Global)
}

// Names of what belongs to an input of packed codes.
var scalesOf, globalOf = named(".scales"), named(".global")

func named(suffix string) map[string]string {
	m := map[string]string{}
	for _, name := range []string{"a", "b", "x", "w", "w2", "dy"} {
		m[name] = name + suffix
	}
	return m
}

// Along says which way the blocks of an operand lie.
type Along uint8

// The ways.
const (
	AlongRows Along = iota
	AlongColumns
	OfWeight Along = 2 // a weight's blocks may be squares, which lie either way
)

// Unpacked is an operand's code values times the scales of their blocks.
type Unpacked struct {
	F32  []float32
	from *[]float32
}

// Release gives back what holds the values.
func (u Unpacked) Release() {
	if u.from != nil {
		unpacking.Put(u.from)
	}
}

var unpacking = sync.Pool{New: func() any { return new([]float32) }}

// Unpack is an input's code values times the scales of their blocks. Blocks by columns lie by expert as offsets say; nil: in
// one run, or by the experts of a weight.
func Unpack(c *device.Call, name string, way Along, offsets []int32) Unpacked {
	t, scales := c.Input(name), c.Input(scalesOf[name])
	if scales.Format == lowp.FP32 { // there are no blocks
		return Unpacked{F32: t.F32()}
	}
	u := Unpacked{from: unpacking.Get().(*[]float32)}
	u.F32 = grow(u.from, t.Len())
	*u.from = u.F32
	unpack(u.F32, t, scales, way, offsets)
	return u
}

func unpack(y []float32, t, scales *device.Tensor, way Along, offsets []int32) {
	size := nvBlock
	if scales.Format == lowp.E8M0 {
		size = mxBlock
	}
	switch {
	case size == nvBlock && way&OfWeight != 0:
		unpackSquares(y, t.F32(), scales.F32(), t.Cols(), groupsOf(t, nil))
	case way&AlongColumns != 0:
		unpackColumns(y, t.F32(), scales.F32(), t.Cols(), size, groupsOf(t, offsets))
	default:
		unpackRows(y, t.F32(), scales.F32(), t.Cols(), size)
	}
}

// Operands are the formats of two inputs with scales.
func Operands(c *device.Call, a, b string) lowp.Operands {
	return lowp.Operands{A: c.Input(a).Format, B: c.Input(b).Format, Scale: c.Input(scalesOf[a]).Format}
}

// Scaled tells whether the fold's instructions multiply with scales themselves, so that a product takes codes and scales apart.
func Scaled(f kernel.Fold) bool { return f.MMA != nil && f.MMA.Block > 0 }

// Scales are those of an input's blocks as a product along its blocks meets them: of an expert's rows, which lie as offsets say, or of an
// expert's weight; nil and 0: of all.
func Scales(c *device.Call, name string, way Along, offsets []int32, expert int) kernel.Scales {
	t, scales := c.Input(name), c.Input(scalesOf[name])
	size := nvBlock
	if scales.Format == lowp.E8M0 {
		size = mxBlock
	}
	g, s, cols := groupsOf(t, offsets), scales.F32(), t.Cols()
	lo, hi := g.rows(expert)
	across := blocks(cols, size)
	switch {
	case size == nvBlock && way&OfWeight != 0:
		m := kernel.RowMajor(s[expert*blocks(hi-lo, size)*across:], across)
		if way&AlongColumns != 0 {
			m = m.T()
		}
		return kernel.Scales{Mat: m, Rows: nvBlock}
	case way&AlongColumns != 0:
		before := 0
		for i := range expert {
			a, b := g.rows(i)
			before += blocks(b-a, size)
		}
		return kernel.Scales{Mat: kernel.RowMajor(s[before*cols:], cols).T(), Rows: 1}
	}
	return kernel.Scales{Mat: kernel.RowMajor(s[lo*across:], across), Rows: 1}
}

func unpackRows(y, codes, scales []float32, cols, size int) {
	for ; len(codes) > 0; codes, y = codes[cols:], y[cols:] {
		for j := 0; j < cols; j += size {
			s, n := scales[0], min(size, cols-j)
			scales = scales[1:]
			of := codes[j:][:n]
			to := y[j:][:n]
			for i, v := range of {
				to[i] = v * s
			}
		}
	}
}

func unpackColumns(y, codes, scales []float32, cols, size int, g groups) {
	for i := range g.n {
		lo, hi := g.rows(i)
		for r := lo; r < hi; r++ {
			if r > lo && (r-lo)%size == 0 {
				scales = scales[cols:]
			}
			s, of, to := scales[:cols], codes[r*cols:][:cols], y[r*cols:][:cols]
			for j, v := range of {
				to[j] = v * s[j]
			}
		}
		if hi > lo {
			scales = scales[cols:]
		}
	}
}

func unpackSquares(y, codes, scales []float32, cols int, g groups) {
	across := blocks(cols, nvBlock)
	for i := range g.n {
		lo, hi := g.rows(i)
		for r := lo; r < hi; r++ {
			if r > lo && (r-lo)%nvBlock == 0 {
				scales = scales[across:]
			}
			unpackRows(y[r*cols:][:cols], codes[r*cols:][:cols], scales[:across], cols, nvBlock)
		}
		if hi > lo {
			scales = scales[across:]
		}
	}
}

// The products of quantised operands, by form, and those whose k tensor parallelism cuts.
var (
	quantised = [...]*device.Kernel{
		nn.NN: ofPacked(nn.Product{Form: nn.NN}, AlongRows, AlongColumns|OfWeight),
		nn.NT: ofPacked(nn.Product{Form: nn.NT}, AlongRows, AlongRows|OfWeight),
		nn.TN: ofPacked(nn.Product{Form: nn.TN}, AlongColumns, AlongColumns),
	}
	shardQuantised = [...]*device.Kernel{
		nn.NN: ofPacked(nn.Product{Form: nn.NN, Shards: 1}, AlongRows, AlongColumns|OfWeight),
		nn.NT: ofPacked(nn.Product{Form: nn.NT, Shards: 1}, AlongRows, AlongRows|OfWeight),
	}
)

// ofPacked is a product's kernel for operands with scales, whose blocks lie as said.
func ofPacked(p nn.Product, wayA, wayB Along) *device.Kernel {
	return p.Kernel().Taking(device.Names("a b a.scales a.global? b.scales b.global?"), device.ArgNames{},
		func(c *device.Call) { runQuantised(c, p.Form, wayA, wayB) })
}

func runQuantised(c *device.Call, f nn.Form, wayA, wayB Along) {
	m, n, k := f.Extents(c.Input("a"), c.Input("b"))
	if f == nn.TN && ByRow(c, "a") {
		a, b := UnpackRows(c, "a"), UnpackRows(c, "b")
		defer a.Release()
		defer b.Release()
		nn.RunProduct(c, f, a.F32, b.F32, c.Fold("k", k))
		return
	}
	fold := c.Products("k", k, Operands(c, "a", "b"))
	if Scaled(fold) {
		x, y := nn.Matrices(c, f, c.Input("a").F32(), c.Input("b").F32())
		kernel.MatMulScaled(c.Output("y").F32(), n, x, y, Scales(c, "a", wayA, nil, 0), Scales(c, "b", wayB, nil, 0), m, n, k, fold)
	} else {
		a, b := Unpack(c, "a", wayA, nil), Unpack(c, "b", wayB, nil)
		defer a.Release()
		defer b.Release()
		nn.RunProduct(c, f, a.F32, b.F32, fold)
	}
	Rescale(c, device.Out[float32](c, "y"), "a", "b", 0, 0)
}
