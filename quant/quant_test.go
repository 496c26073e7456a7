package quant

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/kernel/check"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/rng"
)

var recipes = map[string]func() *Recipe{
	"fp8":     func() *Recipe { return &Recipe{Scheme: FP8} },
	"delayed": func() *Recipe { return &Recipe{Scheme: FP8, History: 4} },
	"mxfp8":   func() *Recipe { return &Recipe{Scheme: MXFP8} },
	"floor":   func() *Recipe { return &Recipe{Scheme: MXFP8, Floor: true} },
	"nvfp4": func() *Recipe {
		s := nn.NewStream("sr")
		s.Seed(rng.New(3, "sr"))
		return &Recipe{Scheme: NVFP4, Words: &Words{Stream: s}}
	},
	"indexed": func() *Recipe { return &Recipe{Scheme: NVFP4, Words: &Words{Seed: 5}} },
	"nearest": func() *Recipe { return &Recipe{Scheme: NVFP4} },
}

func gaussian(seed uint64, f lowp.Format, std float64, shape ...int) *device.Tensor {
	t, r := device.NewTensor(f, shape...), rand.New(rand.NewPCG(seed, 1))
	for i := range t.Len() {
		t.Set(i, r.NormFloat64()*std)
	}
	return t
}

// layer is a linear layer under a recipe, with an input and a gradient.
type layer struct {
	*device.Device
	p     *nn.Param
	x, dy *device.Tensor
	y, dx *device.Tensor
	dw    *device.Tensor
	seen  map[string]*device.Call
}

func newLayer(r *Recipe, rows, in, out int) *layer {
	l := &layer{seen: map[string]*device.Call{}}
	l.Device = device.New(device.Options{}, func(next device.Runner) device.Runner {
		return func(c *device.Call) { next(c); l.seen[c.ID.Phase.String()+" "+c.ID.Path] = c }
	})
	l.p = nn.NewParam("w", lowp.BF16, true, in, out)
	l.p.Master.CopyFrom(gaussian(1, lowp.FP32, 0.1, in, out))
	l.p.W.CopyFrom(l.p.Master)
	l.x, l.dy = gaussian(2, lowp.BF16, 1, rows, in), gaussian(3, lowp.BF16, 1e-3, rows, out)
	if r != nil {
		Quantise(l.p, r)
	}
	return l
}

func (l *layer) run(step int) {
	l.At(step, 0, device.Init)
	Update(l.Device, l.p)
	l.At(step, 0, device.Fwd)
	l.y = nn.Fprop(l.x, l.p).Run(l.Device, "l")
	l.At(step, 0, device.Bwd)
	l.dx = nn.Dgrad(l.dy, l.p).Run(l.Device, "l.dx")
	l.dw = nn.Wgrad(l.x, l.dy, l.p).Run(l.Device, "l.dw")
	if q := Of(l.p); q != nil && q.X != nil {
		l.At(step, 0, device.Opt)
		UpdateScales(l.Device, []*Delayed{q.X, q.W, q.DY}, func(_ *device.Device, t *device.Tensor) *device.Tensor { return t })
	}
}

// distance is |a−b|/|b|.
func distance(a, b *device.Tensor) float64 {
	diff, norm := 0.0, 0.0
	for i := range a.Len() {
		d := a.Value(i) - b.Value(i)
		diff, norm = diff+float64(d*d), norm+float64(b.Value(i)*b.Value(i))
	}
	return math.Sqrt(diff / norm)
}

// The products of a quantised layer are those of bf16 within the error of the codes: half a step of 2⁻³, 2⁻² of e5m2 and 2⁻¹ of e2m1,
// of two operands.
func TestQuantisedProductsAreNear(t *testing.T) {
	plain := newLayer(nil, 128, 64, 48)
	plain.run(1)
	for name, most := range map[string][3]float64{"fp8": {0.05, 0.08, 0.08}, "delayed": {0.05, 0.08, 0.08}, "mxfp8": {0.05, 0.05, 0.05},
		"floor": {0.05, 0.05, 0.05}, "nvfp4": {0.18, 0.25, 0.25}, "indexed": {0.18, 0.25, 0.25}, "nearest": {0.18, 0.18, 0.18}} {
		l := newLayer(recipes[name](), 128, 64, 48)
		for step := range 3 { // scales follow the first
			l.run(step + 1)
		}
		for i, d := range []float64{distance(l.y, plain.y), distance(l.dx, plain.dx), distance(l.dw, plain.dw)} {
			require.Less(t, d, most[i], "%s %d", name, i)
			require.Greater(t, d, 0.005, "%s %d: negative control: it is quantised", name, i)
		}
	}
}

// A product's operands are what kernel's quantisers make of the source, and the product is that of what these decode to.
func TestOperandsAreTheKernels(t *testing.T) {
	const rows, in, out = 96, 64, 32
	l := newLayer(recipes["mxfp8"](), rows, in, out)
	l.run(1)
	mxRows := func(x *device.Tensor) (codes, scales []byte, y []float32) {
		codes, scales, y = make([]byte, x.Len()), make([]byte, x.Len()/32), make([]float32, x.Len())
		quantiseMXRows(codes, scales, x.F32(), mxUp)
		dequantiseMXRows(y, codes, scales)
		return
	}
	mxColumns := func(x *device.Tensor) (codes, scales []byte, y []float32) {
		codes, scales, y = make([]byte, x.Len()), make([]byte, x.Len()/32), make([]float32, x.Len())
		quantiseMXColumns(codes, scales, x.F32(), x.Cols(), mxUp)
		dequantiseMXColumns(y, codes, scales, x.Cols())
		return
	}
	check := func(call string, codes, scales []byte) {
		c := l.seen[call]
		require.Equal(t, codes, c.Output("packed").Bytes(nil), call)
		require.Equal(t, scales, c.Output("scales").Bytes(nil), call)
	}
	xc, xs, xv := mxRows(l.x)
	check("fwd l.x.quant", xc, xs)
	wc, ws, wv := mxColumns(l.p.Master)
	check("init w.fprop", wc, ws)
	dc, ds, _ := mxRows(l.dy)
	check("bwd l.dy.quant", dc, ds)
	gc, gs, _ := mxRows(l.p.Master)
	check("init w.dgrad", gc, gs)
	xtc, xts, _ := mxColumns(l.x)
	check("bwd l.x.quant.dw", xtc, xts)
	dtc, dts, _ := mxColumns(l.dy)
	check("bwd l.dy.quant.dw", dtc, dts)
	a, b := device.NewTensor(lowp.FP32, rows, in), device.NewTensor(lowp.FP32, in, out)
	copy(a.F32(), xv)
	copy(b.F32(), wv)
	want := nn.Multiply(nn.NN, a, b).In(lowp.BF16).Run(l.Device, "want")
	require.Equal(t, want.F32(), l.y.F32())

	// Negative controls: a column copy made from the row copy, and a copy made from bf16 in place of the master.
	copy(a.F32(), xv)
	again, _, _ := mxColumns(a)
	require.NotEqual(t, xtc, again, "a copy of a copy")
	fromBF16, _, _ := mxColumns(l.p.W)
	require.NotEqual(t, wc, fromBF16, "not the master")
}

func TestOperandsAreTheKernelsFP8(t *testing.T) {
	l := newLayer(recipes["fp8"](), 40, 24, 20)
	l.run(1)
	for call, c := range map[string]struct {
		x *device.Tensor
		f lowp.Format
	}{"fwd l.x.quant": {l.x, lowp.E4M3}, "init w": {l.p.Master, lowp.E4M3}, "bwd l.dy.quant": {l.dy, lowp.E5M2}} {
		scale, inverse := currentScale(c.f, lowp.AbsMax(c.x.F32()))
		codes := make([]byte, c.x.Len())
		quantiseScaled(c.f, codes, c.x.F32(), scale)
		require.Equal(t, codes, l.seen[call].Output("packed").Bytes(nil), call)
		require.Equal(t, inverse, l.seen[call].Output("scales").F32()[0], call)
	}
	require.Equal(t, "fwd l.x.quant#packed", l.seen["bwd l.dw"].In[0].From, "one copy serves both products")
	require.Equal(t, "bwd l.dy.quant#packed", l.seen["bwd l.dw"].In[1].From)
}

func TestOperandsAreTheKernelsNVFP4(t *testing.T) {
	const rows, in, out = 48, 64, 32
	l := newLayer(recipes["nearest"](), rows, in, out)
	l.run(1)
	check := func(call string, codes, scales []byte, amax float32) {
		c := l.seen[call]
		require.Equal(t, codes, c.Output("packed").Bytes(nil), call)
		require.Equal(t, scales, c.Output("scales").Bytes(nil), call)
		require.Equal(t, amax, c.Output("global").F32()[0], call)
	}
	amax := lowp.AbsMax(l.x.F32())
	codes, scales := make([]byte, rows*in/2), make([]byte, rows*in/16)
	quantiseNVFP4(codes, scales, l.x.F32(), nvTensorScale(amax), nil)
	check("fwd l.x.quant", codes, scales, amax)
	amax = lowp.AbsMax(l.p.Master.F32())
	codes, scales = make([]byte, in*out/2), make([]byte, in*out/256)
	quantiseNVFP4Square(codes, scales, l.p.Master.F32(), out, nvTensorScale(amax))
	check("init w", codes, scales, amax)

	// The copy for dW: columns, transformed, quantised as rows of the transpose.
	xt, y := make([]float32, rows*in), make([]float32, rows*in)
	transpose(xt, l.x.F32(), in)
	l.At(2, 0, device.Bwd)
	randomHadamard(y, xt, l.seen["bwd l.x.quant.dw"].Fold("hadamard", 16))
	amax = lowp.AbsMax(y)
	codes, scales = make([]byte, rows*in/2), make([]byte, rows*in/16)
	quantiseNVFP4(codes, scales, y, nvTensorScale(amax), nil)
	c := l.seen["bwd l.x.quant.dw"]
	require.Equal(t, amax, c.Output("global").F32()[0])
	of := lowp.E2M1.FromBytes(codes)
	for r := range rows {
		for j := range in {
			require.Equal(t, of[j*rows+r], c.Output("packed").F32()[r*in+j])
			require.Equal(t, lowp.E4M3.Decode(uint32(scales[(j*rows+r)/16])), c.Output("scales").F32()[r/16*in+j])
		}
	}
}

// An amax is the largest of a step's microbatches, whichever comes last, and the scale of the next step follows from it.
func TestAmaxOfEveryMicrobatch(t *testing.T) {
	l := newLayer(recipes["delayed"](), 32, 16, 16)
	small := gaussian(2, lowp.BF16, 0.1, 32, 16)
	for step, order := range [][]*device.Tensor{{l.x, small}, {small, l.x}} {
		l.At(step, 0, device.Init)
		Update(l.Device, l.p)
		for micro, x := range order {
			l.At(step, micro, device.Fwd)
			nn.Fprop(x, l.p).Run(l.Device, "l")
		}
		q := Of(l.p)
		l.At(step, 0, device.Opt)
		UpdateScales(l.Device, []*Delayed{q.X, q.W, q.DY}, func(_ *device.Device, t *device.Tensor) *device.Tensor { return t })
		amax := lowp.AbsMax(l.x.F32())
		require.Equal(t, amax, q.X.History.F32()[3], "the newest")
		scale, _ := currentScale(lowp.E4M3, amax)
		require.Equal(t, scale, q.X.Scale.F32()[0])
		require.Zero(t, q.X.Amax.F32()[0])
	}
}

// Stochastic rounding draws for gradients alone, one word an element, and from the stream.
func TestRoundingDrawsForGradients(t *testing.T) {
	l := newLayer(recipes["nvfp4"](), 32, 16, 16)
	before := append([]int32(nil), Of(l.p).Words.State.I32()...)
	l.At(1, 0, device.Init)
	Update(l.Device, l.p)
	l.At(1, 0, device.Fwd)
	nn.Fprop(l.x, l.p).Run(l.Device, "l")
	l.Enter(device.Rec)
	nn.Fprop(l.x, l.p).Run(l.Device, "l")
	require.Equal(t, before, Of(l.p).Words.State.I32(), "the forward, and its recomputation, draw nothing")
	require.Equal(t, l.seen["fwd l"].Output("y").F32(), l.seen["rec l"].Output("y").F32())
	l.Enter(device.Bwd)
	nn.Dgrad(l.dy, l.p).Run(l.Device, "l.dx")
	require.NotEqual(t, before, Of(l.p).Words.State.I32())
	n := 0
	nn.Wgrad(l.x, l.dy, l.p).Run(l.Device, "l.dw")
	for path, c := range l.seen {
		if c.Kind == device.Draw {
			require.Contains(t, path, "bwd l.dy.words")
			n += c.Output("words").Len()
		}
	}
	require.Equal(t, 2*l.dy.Len(), n)
	want := rng.New(3, "sr")
	for range n {
		want.Uint64()
	}
	state := nn.NewStream("")
	state.Seed(want)
	require.Equal(t, state.State.I32(), Of(l.p).Words.State.I32())
}

// Blocks that are not whole are shorter: no row, column or run of an expert's rows reaches into another's.
func TestBlocksDoNotStraddle(t *testing.T) {
	for _, name := range []string{"mxfp8", "nearest"} {
		q := &Weight{Recipe: recipes[name](), labels: map[string]*operandLabels{}}
		d, reader := device.New(device.Options{}), &device.Kernel{Name: "read"}
		x := gaussian(7, lowp.BF16, 1, 50, 20)
		offsets := device.NewTensor(lowp.INT32, 5)
		copy(offsets.I32(), []int32{0, 17, 17, 49, 50})
		value := func(step int, way Along) []float32 {
			d.At(step, 0, device.Bwd)
			p := q.columns(d, &operand{quant: "c"}, x, offsets, nil, Rows{})
			if way == AlongRows {
				p = q.rows(d, &operand{quant: "r"}, x, nil, nil, lowp.E4M3, Rows{})
			}
			if p.Global != nil {
				require.Equal(t, float32(1000), p.Global.F32()[0], "the largest lies in a block that is not whole: it is not transformed")
			}
			c := d.Open("read", reader)
			c.Read("a", p.Codes)
			ReadScales(c, "a", p)
			u := Unpack(c, "a", way, offsets.I32())
			defer u.Release()
			return append([]float32(nil), u.F32...)
		}
		x.F32()[49*20] = 1000 // the tensor's amax, in an expert of one row, which nothing is mixed with
		rows, columns := value(1, AlongRows), value(2, AlongColumns)
		x.F32()[3*20+5] = 100 // a row's first block, and the first expert's
		rows2, columns2 := value(3, AlongRows), value(4, AlongColumns)
		require.NotEqual(t, rows[3*20:4*20], rows2[3*20:4*20], "negative control")
		require.NotEqual(t, columns[:17*20], columns2[:17*20], "negative control")
		require.Equal(t, rows[4*20:], rows2[4*20:])
		require.Equal(t, columns[17*20:], columns2[17*20:])
		if name == "nearest" {
			require.Equal(t, rows[3*20+16:4*20], rows2[3*20+16:4*20], "the rest of the row")
		}
		if name == "nearest" {
			require.Equal(t, columns[16*20:17*20], columns2[16*20:17*20], "the expert's seventeenth row")
		}
	}
}

// What a step quantises stands where it stood in the step before. What is left are a stream's state, and the names of amaxes' producers,
// of which there are several.
func TestQuantisingAllocatesLittle(t *testing.T) {
	if check.Raced() {
		t.Skip("the race detector makes pools forget")
	}
	for name, most := range map[string]float64{"fp8": 0, "delayed": 8, "mxfp8": 0, "floor": 0, "nearest": 0, "nvfp4": 8, "indexed": 8} {
		l := newLayer(recipes[name](), 40, 24, 20)
		l.Device = device.New(device.Options{})
		step := 0
		run := func() {
			step++
			l.run(step)
		}
		run()
		require.LessOrEqual(t, testing.AllocsPerRun(50, run), most, name)
	}
}

// Digests hash true codes, of e2m1 two a byte.
func TestDigestsOfCodes(t *testing.T) {
	x := device.NewTensor(lowp.E2M1, 3)
	copy(x.F32(), []float32{0.5, -6, 1})
	require.Equal(t, []byte{0xf1, 0x02}, x.Bytes(nil))
	require.Equal(t, uint64(0xfffffffffffffff1)^2, x.XOR(), "as int8")
	require.Equal(t, []byte{127, 0}, func() []byte {
		s := device.NewTensor(lowp.E8M0, 2)
		s.F32()[0], s.F32()[1] = 1, 0x1p-127
		return s.Bytes(nil)
	}())
}
