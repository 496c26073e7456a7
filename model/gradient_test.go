package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/match"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/moe"
	"firstbit/rng"
	"firstbit/ssm"
)

const gradTolerance = 1e-6

// small is a network in which every extent is its own, so that no two can be confused.
func small(pattern string) Config {
	return Config{
		Pattern: pattern, Vocab: 11, Width: 6, Heads: 4, KVHeads: 2, HeadDim: 3, Hidden: 7, Eps: 1e-5, InitStd: 0.5,
		MoE: moe.Config{Experts: 5, TopK: 2, Hidden: 10, Router: "sigmoid", RouterDtype: "fp32",
			Scaling: 2.5, AuxCoeff: 0.7, ZCoeff: 0.1, TileM: 2, TileN: 4, TileSub: 3},
		SSM: ssm.Config{Heads: 4, HeadDim: 2, State: 3, Groups: 2, Conv: 3, DTMin: 0.9},
		MTP: MTPConfig{Depths: 2, Factor: 0.6},
	}
}

// bench runs a model on one batch, in float64.
type bench struct {
	*Model
	dev             *device.Device
	tokens, targets *device.Tensor
	step            int
	lm, extra       float64            // weights of the loss and of the layers' own losses
	routes          []int32            // what the top-k kernels chose in the last forward
	after           func(*device.Call) // sees every Call once it ran
}

func newBench(t testing.TB, c Config, f lowp.Format) *bench {
	b := &bench{lm: 1.0 / 8, extra: 1}
	b.dev = device.New(device.Options{}, func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			next(c)
			if c.Kernel.Name == "topk" {
				b.routes = append(b.routes, c.Out[0].I32()...)
			}
			if b.after != nil {
				b.after(c)
			}
		}
	})
	m, err := New(c, f)
	require.NoError(t, err)
	b.Model = m
	r := rand.New(rand.NewPCG(11, 3))
	for _, p := range m.Params() {
		for i := range p.Master.Len() {
			v := r.NormFloat64() * 0.5
			if !p.Decay {
				v += 1 // a norm
			}
			p.Master.Set(i, v)
		}
		p.W.CopyFrom(p.Master)
	}
	for _, routed := range m.Routers() { // a choice that differs from the unbiased one
		for i := range routed.Bias.Len() {
			routed.Bias.Set(i, 0.3*r.NormFloat64())
		}
	}
	b.tokens, b.targets = device.NewTensor(lowp.INT32, 2, 5), device.NewTensor(lowp.INT32, 2, 5)
	for i := range b.tokens.I32() {
		b.tokens.I32()[i], b.targets.I32()[i] = r.Int32N(11), r.Int32N(11)
	}
	b.targets.I32()[3] = -1 // left out
	return b
}

// loss is the whole loss of a fresh forward.
func (b *bench) loss() float64 {
	b.step++
	b.routes = b.routes[:0]
	b.dev.At(b.step, 0, device.Fwd)
	for _, s := range b.Streams() { // every forward draws the same masks
		s.Seed(rng.New(3, s.Name))
	}
	l := b.Forward(b.dev, b.tokens, b.targets)
	sum := l.LM.Value(0) * b.lm
	for k, loss := range l.MTP {
		sum += loss.Value(0) * b.MTPScale(k, b.tokens.Dim(1), b.lm)
	}
	for i := range l.Aux {
		sum += (l.Aux[i].Value(0) + l.Z[i].Value(0)) * b.extra
	}
	return sum
}

// gradients is the written-out backward of a fresh forward, every parameter's in turn.
func (b *bench) gradients() [][]float64 {
	b.loss()
	for _, p := range b.Params() {
		p.ZeroGrad()
	}
	b.dev.At(b.step, 0, device.Bwd)
	b.Backward(b.dev, b.lm, b.extra)
	var g [][]float64
	for _, p := range b.Params() {
		g = append(g, slices.Clone(p.Grad.F64()))
	}
	return g
}

// differences is the gradient by central differences; NaN where the choice of experts changes.
func (b *bench) differences() [][]float64 {
	const h = 1e-5
	b.loss()
	routes := slices.Clone(b.routes)
	var g [][]float64
	for _, p := range b.Params() {
		w, d := p.W.F64(), make([]float64, p.W.Len())
		for i, keep := range w {
			w[i] = keep + h
			hi := b.loss()
			same := slices.Equal(routes, b.routes)
			w[i] = keep - h
			lo := b.loss()
			same = same && slices.Equal(routes, b.routes)
			w[i] = keep
			d[i] = (hi - lo) / (2 * h)
			if !same {
				d[i] = math.NaN()
			}
		}
		g = append(g, d)
	}
	return g
}

// worst is the largest difference between two gradients, relative to the parameter's largest element.
func worst(got, want [][]float64) (err float64, param int) {
	for n := range want {
		scale := 1e-9
		for _, v := range want[n] {
			scale = max(scale, math.Abs(v))
		}
		for i, v := range want[n] {
			if e := math.Abs(got[n][i]-v) / scale; e > err {
				err, param = e, n
			}
		}
	}
	return err, param
}

// checkGradients holds the backward against differences, then makes every Call of it in turn one percent too
// large: each time the check must fail, but for Calls whose path fits blind.
func checkGradients(t *testing.T, b *bench, blind ...string) {
	t.Helper()
	want := b.differences()
	skipped := 0
	for _, d := range want {
		for _, v := range d {
			if math.IsNaN(v) {
				skipped++
			}
		}
	}
	require.Zero(t, skipped, "the point lies where the choice of experts changes: take another seed")

	var calls []string
	b.after = func(c *device.Call) {
		if c.ID.Phase == device.Bwd && c.Kind == device.Op {
			calls = append(calls, c.ID.Path)
		}
	}
	e, param := worst(b.gradients(), want)
	require.LessOrEqual(t, e, gradTolerance, b.Params()[param].Name)

	require.NotEmpty(t, calls)
	for _, path := range calls {
		if slices.ContainsFunc(blind, func(glob string) bool { return match.Match(path, glob) }) {
			continue
		}
		b.after = func(c *device.Call) {
			if c.ID.Phase == device.Bwd && c.Kind == device.Op && c.ID.Path == path {
				for i := range c.Out[0].F64() {
					c.Out[0].F64()[i] *= 1.01
				}
			}
		}
		e, _ := worst(b.gradients(), want)
		require.Greater(t, e, gradTolerance, "%s was broken and nothing noticed", path)
	}
	b.after = nil
}

func TestGradients(t *testing.T) {
	for _, pattern := range []string{"*", "-", "E", "M", "*-E", "M-/*", "E/ME"} {
		for _, tied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s tied=%v", pattern, tied), func(t *testing.T) {
				c := small(pattern)
				c.Tied = tied
				checkGradients(t, newBench(t, c, lowp.FP64))
			})
		}
	}
}

func TestRouterAndExpertGradients(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"softmax":        func(c *Config) { c.MoE.Router, c.MoE.Scaling = "softmax", 1.5 },
		"shared":         func(c *Config) { c.MoE.SharedHidden = 4 },
		"softmax shared": func(c *Config) { c.MoE.Router, c.MoE.SharedHidden = "softmax", 4 },
		"top-1":          func(c *Config) { c.MoE.TopK = 1 },
		"all experts":    func(c *Config) { c.MoE.TopK = 5 },
	} {
		t.Run(name, func(t *testing.T) {
			c := small("E")
			change(&c)
			var blind []string
			if c.MoE.TopK == c.MoE.Experts { // shares sum to one, so equal counts have no gradient
				blind = []string{"*.aux_loss.dx", "*.share.dx"}
			}
			checkGradients(t, newBench(t, c, lowp.FP64), blind...)
		})
	}
}

// Each of the layers' own losses alone, so that it is not lost beside the language-model loss.
func TestLossGradientsAlone(t *testing.T) {
	for _, router := range []string{"sigmoid", "softmax"} {
		for name, coeff := range map[string][2]float64{"aux": {1, 0}, "z": {0, 1}} {
			t.Run(router+" "+name, func(t *testing.T) {
				c := small("E")
				c.MoE.Router, c.MoE.AuxCoeff, c.MoE.ZCoeff = router, coeff[0], coeff[1]
				b := newBench(t, c, lowp.FP64)
				b.lm = 0
				want := b.differences()
				e, param := worst(b.gradients(), want)
				require.LessOrEqual(t, e, gradTolerance, b.Params()[param].Name)
				// Negative control: leaving the loss out of the backward.
				b.extra = 0
				e, _ = worst(b.gradients(), want)
				require.Greater(t, e, 0.1)
			})
		}
	}
}

// Dropout, jitter, repeated depths and recomputation, alone and together.
func TestGradientsOfTheWholeFamily(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"dropout":  func(c *Config) { c.Pattern, c.Dropout = "-", 0.3 },
		"jitter":   func(c *Config) { c.Pattern, c.MoE.Jitter = "E", 0.2 },
		"repeated": func(c *Config) { c.Pattern, c.MTP.Repeated = "-/E", true },
		"all": func(c *Config) {
			c.Pattern, c.MTP.Repeated, c.Dropout, c.MoE.Jitter, c.Recompute = "M*E-/*E", true, 0.2, 0.1, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := small("")
			change(&c)
			checkGradients(t, newBench(t, c, lowp.FP64))
		})
	}
}

// A second microbatch adds to the gradient of the first, in that order.
func TestMicrobatchesAdd(t *testing.T) {
	b := newBench(t, small("*-E"), lowp.FP64)
	one := b.gradients()
	b.tokens.I32()[0]++
	two := b.gradients()
	b.tokens.I32()[0]--
	b.gradients() // what it leaves in Grad is kept: no ZeroGrad before the second
	b.tokens.I32()[0]++
	b.dev.At(b.step, 1, device.Fwd)
	b.Forward(b.dev, b.tokens, b.targets)
	b.dev.At(b.step, 1, device.Bwd)
	b.Backward(b.dev, b.lm, b.extra)
	for n, p := range b.Params() {
		for i, v := range p.Grad.F64() {
			require.Equal(t, one[n][i]+two[n][i], v, p.Name)
		}
	}
}
