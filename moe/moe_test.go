package moe

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
)

const tokens, width = 7, 6

// small is a layer in which every extent is its own, with several tiles and sub-tiles a row.
var small = Config{Experts: 5, TopK: 2, Hidden: 10, Router: "sigmoid", RouterDtype: "fp32",
	Scaling: 2.5, AuxCoeff: 0.7, ZCoeff: 0.1, BiasRate: 0.25, TileM: 2, TileN: 4, TileSub: 3}

// linear is the shared expert of these tests: y = x·W.
type linear struct {
	w *nn.Param
	x *device.Tensor
}

func (l *linear) Forward(dev *device.Device, x *device.Tensor) *device.Tensor {
	l.x = x
	return nn.Multiply(nn.NN, x, l.w.W).Run(dev, "w")
}

func (l *linear) Backward(dev *device.Device, dy *device.Tensor) *device.Tensor {
	nn.Accumulate(dev, "w.grad", l.w, nn.Multiply(nn.TN, l.x, dy).Run(dev, "w.dw"))
	return nn.Multiply(nn.NT, dy, l.w.W).Run(dev, "w.dx")
}

func (l *linear) Params() []*nn.Param { return []*nn.Param{l.w} }

// bench is a layer with an input and a projection dy of its output.
type bench struct {
	*MoE
	dev   *device.Device
	x, dy *device.Tensor
	step  int

	output *device.Tensor // of the last forward
}

func newBench(c Config, f lowp.Format, middleware ...device.Middleware) *bench {
	m := &MoE{Config: c}
	m.Router = Router{Config: c, W: nn.NewParam("router.w", f, true, c.Experts, width),
		Bias: device.NewTensor(nn.MasterFormat(f), c.Experts), Tokens: device.NewTensor(lowp.INT32, c.Experts)}
	inner, rows := width, tokens
	if c.Latent > 0 {
		inner = c.Latent
		m.Latent = &Latent{Down: nn.NewParam("down", f, true, width, inner), Up: nn.NewParam("up", f, true, inner, width)}
	}
	if c.Aux == "sequence" {
		rows, m.Router.Sequence = 6, 3
	}
	m.Experts = Experts{Config: c, W1: nn.NewParam("w1", f, true, c.Experts, inner, c.Hidden), W2: nn.NewParam("w2", f, true, c.Experts, c.Hidden, inner)}
	if c.SharedHidden > 0 {
		m.Shared = &linear{w: nn.NewParam("shared.w", f, true, width, width)}
	}
	b := &bench{MoE: m, dev: device.New(device.Options{Schedule: device.Schedule{Seed: 3}}, middleware...),
		x: device.NewTensor(f, rows, width), dy: device.NewTensor(f, rows, width)}
	r := rand.New(rand.NewPCG(2, 7))
	fill := func(t *device.Tensor) {
		for i := range t.Len() {
			t.Set(i, r.NormFloat64())
		}
	}
	fill(b.x)
	fill(b.dy)
	for _, p := range m.Params() {
		fill(p.W)
	}
	for i := range m.Router.Bias.Len() {
		m.Router.Bias.Set(i, 0.4*r.NormFloat64())
	}
	return b
}

// forward is Σ dy·y + weight·(aux + z).
func (b *bench) forward(weight float64) float64 {
	b.step++
	b.dev.At(b.step, 0, device.Fwd)
	y := b.Forward(b.dev, b.x)
	b.output = y
	sum := weight * (b.Aux.Value(0) + b.Z.Value(0))
	for i := range y.Len() {
		sum += b.dy.Value(i) * y.Value(i)
	}
	return sum
}

// backward is the gradient of x and of every parameter.
func (b *bench) backward(weight float64) [][]float64 {
	b.forward(weight)
	b.dev.At(b.step, 0, device.Bwd)
	for _, p := range b.Params() {
		p.ZeroGrad()
	}
	g := [][]float64{slices.Clone(b.MoE.Backward(b.dev, b.dy, weight).F64())}
	for _, p := range b.Params() {
		g = append(g, slices.Clone(p.Grad.F64()))
	}
	return g
}

// differences is the gradient by central differences, in the order of backward.
func (b *bench) differences(t *testing.T, weight float64) (d [][]float64) {
	const h = 1e-5
	b.forward(weight)
	index := slices.Clone(b.index.I32())
	tensors := []*device.Tensor{b.x}
	for _, p := range b.Params() {
		tensors = append(tensors, p.W)
	}
	at := func(x *float64, v float64) float64 {
		keep := *x
		*x = v
		f := b.forward(weight)
		*x = keep
		if !slices.Equal(index, b.index.I32()) {
			t.Fatal("the point lies where the choice changes: take another seed")
		}
		return f
	}
	for _, x := range tensors {
		g := make([]float64, x.Len())
		for i, v := range x.F64() {
			g[i] = (at(&x.F64()[i], v+h) - at(&x.F64()[i], v-h)) / (2 * h)
		}
		d = append(d, g)
	}
	return d
}

// gradError is the largest difference of two gradients, relative to each tensor's largest element.
func gradError(got, want [][]float64) (worst float64) {
	for n := range want {
		scale := max(1e-9, math.Abs(want[n][largestAt(want[n])]))
		for i, v := range want[n] {
			worst = max(worst, math.Abs(got[n][i]-v)/scale)
		}
	}
	return worst
}

func TestLayerGradients(t *testing.T) {
	for _, router := range []string{"sigmoid", "softmax"} {
		for _, shared := range []int{0, 1} {
			for _, k := range []int{1, 2, 5} {
				c := small
				c.Router, c.SharedHidden, c.TopK = router, shared, k
				b := newBench(c, lowp.FP64)
				got, want := b.backward(0.5), b.differences(t, 0.5)
				require.Less(t, gradError(got, want), 1e-6, "%s shared %d top-%d", router, shared, k)
				for n := range got { // negative control, one tensor at a time
					i := largestAt(got[n])
					got[n][i] *= 1.001
					require.Greater(t, gradError(got, want), 1e-6)
					got[n][i] /= 1.001
				}
			}
		}
	}
}

func largestAt(x []float64) (at int) {
	for i, v := range x {
		if math.Abs(v) > math.Abs(x[at]) {
			at = i
		}
	}
	return at
}

// bias_i += rate·sign(mean(n) − n_i), and a new count begins (docs/facts.md, Model).
func TestUpdateBias(t *testing.T) {
	for _, c := range []struct {
		n    []int32
		want []float64
	}{
		{[]int32{3, 1, 2, 2, 2}, []float64{-0.25, 0.25, 0, 0, 0}},
		{[]int32{0, 0, 0, 0, 7}, []float64{0.25, 0.25, 0.25, 0.25, -0.25}},
		{[]int32{1, 1, 1, 2, 1}, []float64{0.25, 0.25, 0.25, -0.25, 0.25}}, // mean 1.2
		{[]int32{0, 0, 0, 0, 0}, []float64{0, 0, 0, 0, 0}},
	} {
		b := newBench(small, lowp.FP32)
		for i := range b.Router.Bias.Len() {
			b.Router.Bias.Set(i, 0)
		}
		copy(b.Router.Tokens.I32(), c.n)
		b.dev.At(1, 0, device.Opt)
		b.Router.UpdateBias(b.dev)
		for i, want := range c.want {
			require.Equal(t, want, b.Router.Bias.Value(i), "%v", c.n)
			require.Zero(t, b.Router.Tokens.I32()[i])
		}
	}
}

// Counts add up over the microbatches of a step, of the biased choice.
func TestCountTokens(t *testing.T) {
	b := newBench(small, lowp.FP32)
	want := make([]int32, small.Experts)
	for micro := range 3 {
		b.dev.At(1, micro, device.Fwd)
		b.Forward(b.dev, b.x)
		b.Router.CountTokens(b.dev)
		for _, e := range b.index.I32() {
			want[e]++
		}
	}
	require.Equal(t, want, b.Router.Tokens.I32())
}

// Logits in bf16 are bf16 values; scores stay wide.
func TestRouterDtype(t *testing.T) {
	c := small
	c.RouterDtype = "bf16"
	b := newBench(c, lowp.FP32)
	b.forward(1)
	require.Equal(t, lowp.BF16, b.Router.logits.Format)
	require.Equal(t, lowp.FP32, b.Router.scores.Format)
	for _, v := range b.Router.logits.F32() {
		require.Equal(t, lowp.BF16.Round(v), v)
	}
}

func TestValidate(t *testing.T) {
	require.NoError(t, small.Validate())
	for want, change := range map[string]func(*Config){
		"experts": func(c *Config) { c.Experts = 0 }, "top_k": func(c *Config) { c.TopK = 6 }, "hidden": func(c *Config) { c.Hidden = 0 },
		"shared_hidden": func(c *Config) { c.SharedHidden = -1 }, "router": func(c *Config) { c.Router = "" },
		"router_dtype": func(c *Config) { c.RouterDtype = "fp16" }, "scaling": func(c *Config) { c.Scaling = 0 },
		"tile_m": func(c *Config) { c.TileM = 0 }, "tile_n": func(c *Config) { c.TileN = 0 }, "tile_sub": func(c *Config) { c.TileSub = 5 },
	} {
		c := small
		change(&c)
		require.ErrorContains(t, c.Validate(), "model.moe."+want+":")
	}
	c := small
	c.ZCoeff = -1
	require.ErrorContains(t, c.Validate(), "z_coeff")
}
