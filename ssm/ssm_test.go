package ssm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/reduce"
)

// shape is a layer with its input.
type shape struct {
	Config
	batch, steps, width int
}

// odd is a layer in which every extent is its own, with three heads in a group.
func odd() shape {
	return shape{Config{Heads: 6, HeadDim: 2, State: 3, Groups: 2, Conv: 4}, 2, 7, 5}
}

// bench is a layer with an input and a projection dy of its output.
type bench struct {
	*Mamba
	dev   *device.Device
	x, dy *device.Tensor
	step  int
	plans map[string]string  // items over the plan, by label
	fast  bool               // kernels run by their fast plans, products excepted
	probe bool               // a trace at kernel level watches
	after func(*device.Call) // sees every Call once it ran
}

func newBench(s shape, f lowp.Format, schedule uint64) *bench {
	b := &bench{Mamba: &Mamba{Config: s.Config, Eps: 1e-5, Batch: s.batch}, plans: map[string]string{}}
	b.dev = device.New(device.Options{Schedule: device.Schedule{Seed: schedule}}, b.middleware)
	master := nn.MasterFormat(f)
	param := func(name string, f lowp.Format, shape ...int) *nn.Param {
		return nn.NewParam(name, f, true, shape...)
	}
	b.InProj, b.OutProj = param("in_proj", f, s.width, s.Projected()), param("out_proj", f, s.Inner(), s.width)
	b.Conv, b.ConvBias = param("conv.w", f, s.Channels(), s.Config.Conv), param("conv.b", f, s.Channels())
	b.DTBias, b.ALog, b.Skip = param("dt_bias", master, s.Heads), param("a_log", master, s.Heads), param("d", master, s.Heads)
	b.Norm = param("norm.w", f, s.Inner())
	b.x, b.dy = device.NewTensor(f, s.batch*s.steps, s.width), device.NewTensor(f, s.batch*s.steps, s.width)
	r := rand.New(rand.NewPCG(2, 7))
	fill := func(t *device.Tensor) {
		for i := range t.Len() {
			t.Set(i, 0.7*r.NormFloat64())
		}
	}
	fill(b.x)
	fill(b.dy)
	for _, p := range b.Params() {
		fill(p.Master)
		p.W.CopyFrom(p.Master)
	}
	return b
}

func (b *bench) middleware(next device.Runner) device.Runner {
	return func(c *device.Call) {
		if b.fast && !c.Kernel.Fast.Empty() && !strings.HasPrefix(c.Kernel.Name, "matmul") {
			c.Plan = c.Kernel.Fast
		}
		if item := b.plans[c.Label]; item != "" {
			var err error
			if c.Plan, err = c.Plan.With(reduce.MustPlan(item)); err != nil {
				panic(err)
			}
		}
		c.Probe = nil
		if b.probe {
			c.Probe = func(device.Partial) {}
		}
		next(c)
		if b.after != nil {
			b.after(c)
		}
	}
}

func (b *bench) forward() *device.Tensor {
	b.step++
	b.dev.At(b.step, 0, device.Fwd)
	return b.Forward(b.dev, b.x)
}

// loss is ⟨dy, layer(x)⟩.
func (b *bench) loss() float64 {
	y, sum := b.forward(), 0.0
	for i := range y.Len() {
		sum += y.Value(i) * b.dy.Value(i)
	}
	return sum
}

// gradients are those of x and then of every weight.
func (b *bench) gradients() [][]float64 {
	b.forward()
	for _, p := range b.Params() {
		p.ZeroGrad()
	}
	b.dev.At(b.step, 0, device.Bwd)
	g := [][]float64{values(b.Backward(b.dev, b.dy))}
	for _, p := range b.Params() {
		g = append(g, values(p.Grad))
	}
	return g
}

func values(t *device.Tensor) []float64 {
	v := make([]float64, t.Len())
	for i := range v {
		v[i] = t.Value(i)
	}
	return v
}

// differences are the gradients by central differences.
func (b *bench) differences() [][]float64 {
	const h = 1e-5
	of := func(t *device.Tensor) []float64 {
		g := make([]float64, t.Len())
		for i := range g {
			keep := t.Value(i)
			t.Set(i, keep+h)
			hi := b.loss()
			t.Set(i, keep-h)
			g[i] = (hi - b.loss()) / (2 * h)
			t.Set(i, keep)
		}
		return g
	}
	g := [][]float64{of(b.x)}
	for _, p := range b.Params() {
		g = append(g, of(p.W))
	}
	return g
}

// worst is the largest difference of two gradients, relative to the largest element of each.
func worst(got, want [][]float64) (err float64, at string) {
	names := []string{"x", "in_proj", "conv.w", "conv.b", "dt_bias", "a_log", "d", "norm.w", "out_proj"}
	for n := range want {
		scale := 1e-9
		for _, v := range want[n] {
			scale = max(scale, math.Abs(v))
		}
		for i, v := range want[n] {
			if e := math.Abs(got[n][i]-v) / scale; e > err {
				err, at = e, fmt.Sprintf("%s[%d]: %g, want %g", names[n], i, got[n][i], v)
			}
		}
	}
	return err, at
}

const gradTolerance = 1e-6

// The layer's gradients are its differences, whatever the extents. Every Call of the backward in turn is
// made one percent too large in each of its outputs, which must be seen.
func TestGradients(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*shape)
		chunk  int
	}{
		"a short last chunk":       {func(*shape) {}, 3},
		"chunks of one step":       {func(*shape) {}, 1},
		"one chunk":                {func(*shape) {}, 7},
		"a chunk that is too long": {func(*shape) {}, 100},
		"one group":                {func(s *shape) { s.Groups = 1 }, 2},
		"a group per head":         {func(s *shape) { s.Groups = 6 }, 4},
		"one head":                 {func(s *shape) { s.Heads, s.Groups = 1, 1 }, 2},
		"one tap":                  {func(s *shape) { s.Conv = 1 }, 4},
		"more taps than steps":     {func(s *shape) { s.Conv, s.steps = 9, 4 }, 3},
		"a bound on the step size": {func(s *shape) { s.DTMin = 0.7 }, 3},
		"one step":                 {func(s *shape) { s.steps = 1 }, 16},
		"one of everything":        {func(s *shape) { *s = shape{Config{1, 1, 1, 1, 1, 0}, 1, 2, 1} }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := odd()
			c.change(&s)
			b := newBench(s, lowp.FP64, 0)
			b.plans["scan"] = fmt.Sprintf("chunk=%d", c.chunk)
			b.plans["scan.dx"] = b.plans["scan"]
			checkGradients(t, b)
		})
	}
}

func checkGradients(t *testing.T, b *bench) {
	t.Helper()
	want := b.differences()
	type output struct {
		label string
		out   int
	}
	var outputs []output
	b.after = func(c *device.Call) {
		for i := range c.Out {
			if c.ID.Phase == device.Bwd {
				outputs = append(outputs, output{c.Label, i})
			}
		}
	}
	e, at := worst(b.gradients(), want)
	require.LessOrEqual(t, e, gradTolerance, at)
	for _, o := range outputs {
		zero := true
		b.after = func(c *device.Call) {
			if c.ID.Phase == device.Bwd && c.Label == o.label {
				for i := range c.Out[o.out].F64() {
					v := &c.Out[o.out].F64()[i]
					zero = zero && *v == 0
					*v *= 1.01
				}
			}
		}
		e, _ := worst(b.gradients(), want)
		if !zero { // a sequence of one step has no decay, nor the gradient of one
			require.Greater(t, e, gradTolerance, "output %d of %s was broken and nothing noticed", o.out, o.label)
		}
	}
	b.after = nil
}

// Where the step size is held at its bound, its gradient stops; elsewhere it does not.
func TestTheBoundStopsTheGradient(t *testing.T) {
	s := odd()
	s.DTMin = 0.7
	b := newBench(s, lowp.FP64, 0)
	held, free := 0, 0
	b.after = func(c *device.Call) {
		if c.Label != "dt.dx" {
			return
		}
		for i, v := range c.Out[0].F64() {
			if b.seq.DT.Value(i) == s.DTMin {
				require.Zero(t, v)
				held++
			} else {
				require.NotZero(t, v)
				free++
			}
		}
	}
	b.gradients()
	require.Positive(t, held)
	require.Positive(t, free)
}

// What a later step holds reaches no earlier output, infinities included.
func TestNoStepSeesALaterOne(t *testing.T) {
	for _, chunk := range []int{1, 3, 16} {
		s := odd()
		b := newBench(s, lowp.FP32, 0)
		b.plans["scan"] = fmt.Sprintf("chunk=%d", chunk)
		before := append([]float32(nil), b.forward().F32()...)
		for i := range s.width {
			b.x.F32()[4*s.width+i] = float32(math.Inf(1))
		}
		after := b.forward().F32()
		require.Equal(t, before[:4*s.width], after[:4*s.width])
		require.Equal(t, before[s.steps*s.width:], after[s.steps*s.width:], "the other sequence")
		require.NotEqual(t, before[5*s.width], after[5*s.width], "negative control: later ones do see it")
	}
}

// A low-precision layer is near the float64 one, the wider the format the nearer. Step sizes and decays are
// kept at master width, everything else at the activations'.
func TestFormatsAreNear(t *testing.T) {
	wide := map[string]bool{"dt#dt": true, "dt#la": true, "scan#last": true, "norm#rstd": true, "scan.dx#ddt": true, "scan.dx#dla": true,
		"norm.dw#dw": true, "d.dw#dd": true, "a_log.dw#da": true, "dt_bias.dw#db": true, "conv.dw#dw": true, "conv.dw#dbias": true,
		"in_proj.dw#y": true, "out_proj.dw#y": true, "in_proj.grad#grad": true, "out_proj.grad#grad": true, "conv.grad#grad": true,
		"conv.bias.grad#grad": true, "norm.grad#grad": true, "d.grad#grad": true, "a_log.grad#grad": true, "dt_bias.grad#grad": true}
	run := func(f lowp.Format) (all []float64) {
		b := newBench(odd(), f, 0)
		b.Eps = 1 // away from rows that the norm magnifies, and their errors with them
		b.after = func(c *device.Call) {
			for _, o := range c.Out {
				want := f
				if wide[c.Label+"#"+o.Name] {
					want = nn.MasterFormat(f)
				}
				require.Equal(t, want, o.Format, "%s %s", c.Label, o.Name)
			}
		}
		for _, g := range b.gradients() {
			all = append(all, g...)
		}
		return append(all, values(b.forward())...)
	}
	want, norm := run(lowp.FP64), 0.0
	for _, v := range want {
		norm += v * v
	}
	distance := func(f lowp.Format) float64 {
		d := 0.0
		for i, v := range run(f) {
			d += (v - want[i]) * (v - want[i])
		}
		return math.Sqrt(d / norm)
	}
	fp32, fp16, bf16 := distance(lowp.FP32), distance(lowp.FP16), distance(lowp.BF16)
	t.Logf("relative distance from float64: fp32 %.1e, fp16 %.1e, bf16 %.1e", fp32, fp16, bf16)
	require.Less(t, fp32, 1e-6)
	require.Less(t, fp32, fp16)
	require.Less(t, fp16, bf16)
	require.Less(t, bf16, 0.1)
}
