package optim

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/parallel"
)

var base = Config{LR: 0.02, MinLR: 0.002, Warmup: 4, Decay: "cosine", Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Weight: 0.1, Clip: 1, WSDDecay: "linear", LossScale: DefaultLossScale}

// params are a matrix with weight decay and a norm without.
func params(f lowp.Format, seed uint64) []*nn.Param {
	ps := []*nn.Param{nn.NewParam("w", f, true, 3, 5), nn.NewParam("norm.w", f, false, 7)}
	r := rand.New(rand.NewPCG(seed, 1))
	for _, p := range ps {
		for i := range p.Master.Len() {
			p.Master.Set(i, r.NormFloat64())
		}
		p.W.CopyFrom(p.Master)
	}
	return ps
}

// alone is the optimizer of a rank without others, plain that of one among several, canonical one whose bits do not depend on them.
func alone(c Config, ps []*nn.Param) *AdamW {
	return New(c, ps, parallel.NewWorld(parallel.Layout{DP: 1}, 1).Rank(0), 1, false)
}

func plain(c Config, ps []*nn.Param, r parallel.Rank, bucket int) *AdamW {
	return New(c, ps, r, bucket, false)
}

func canonical(c Config, ps []*nn.Param, r parallel.Rank, bucket int) *AdamW {
	for _, p := range ps {
		p.Accumulator = new(nn.ByUse)
	}
	return New(c, ps, r, bucket, true)
}

// replicated builds with all masters and moments on every rank.
func replicated(build building) building {
	return func(c Config, ps []*nn.Param, r parallel.Rank, bucket int) *AdamW {
		c.Replicated = true
		return build(c, ps, r, bucket)
	}
}

// momentsOf is where a rank alone has those of a parameter.
func momentsOf(a *AdamW, i int) *Segment { return a.Buckets[i].Segments[0] }

// naive is AdamW (Loshchilov & Hutter 2019, algorithm 2, with the schedule inside) on flat float64,
// written from the paper: m̂ = m/(1−β1ᵗ), v̂ = v/(1−β2ᵗ), θ −= lr·(m̂/(√v̂+ε) + λ·θ).
type naive struct{ w, m, v [][]float64 }

func (n *naive) step(c Config, decay []bool, g [][]float64, t int, lr float64) (norm float64) {
	for _, gi := range g {
		for _, x := range gi {
			norm += x * x
		}
	}
	norm = math.Sqrt(norm)
	coef := 1.0
	if c.Clip > 0 && c.Clip/(norm+1e-6) < 1 {
		coef = c.Clip / (norm + 1e-6)
	}
	for p := range g {
		for i, x := range g[p] {
			x *= coef
			n.m[p][i] = c.Beta1*n.m[p][i] + (1-c.Beta1)*x
			n.v[p][i] = c.Beta2*n.v[p][i] + (1-c.Beta2)*x*x
			mhat := n.m[p][i] / (1 - math.Pow(c.Beta1, float64(t)))
			vhat := n.v[p][i] / (1 - math.Pow(c.Beta2, float64(t)))
			update := mhat / (math.Sqrt(vhat) + c.Eps)
			if decay[p] {
				update += c.Weight * n.w[p][i]
			}
			n.w[p][i] -= lr * update
		}
	}
	return norm
}

// distance runs both for some steps and returns the largest differences of weights, moments and norms.
func distance(f lowp.Format, c, reference Config, steps int, size float64) (worst float64, clipped int) {
	ps := params(f, 3)
	a, n := alone(c, ps), &naive{}
	for _, p := range ps {
		var w []float64
		for i := range p.Master.Len() {
			w = append(w, p.Master.Value(i))
		}
		n.w, n.m, n.v = append(n.w, w), append(n.m, make([]float64, len(w))), append(n.v, make([]float64, len(w)))
	}
	dev, r := device.New(device.Options{}), rand.New(rand.NewPCG(4, 4))
	for step := 1; step <= steps; step++ {
		var g [][]float64
		for _, p := range ps {
			var gi []float64
			for i := range p.Grad.Len() {
				p.Grad.Set(i, size*r.NormFloat64())
				gi = append(gi, p.Grad.Value(i))
			}
			g = append(g, gi)
		}
		dev.At(step, 0, device.Opt)
		squares, _ := a.Step(dev, step, c.Rate(int64(step), steps))
		norm := squares.Value(0)
		want := n.step(reference, []bool{true, false}, g, step, reference.Rate(int64(step), steps))
		if want > c.Clip {
			clipped++
		}
		worst = max(worst, math.Abs(norm-want)/want)
		for i, p := range ps {
			for j := range p.Master.Len() {
				worst = max(worst, math.Abs(p.Master.Value(j)-n.w[i][j]), math.Abs(momentsOf(a, i).M.Value(j)-n.m[i][j]), math.Abs(momentsOf(a, i).V.Value(j)-n.v[i][j]))
			}
		}
	}
	return worst, clipped
}

func TestAdamWIsItsDefinition(t *testing.T) {
	for name, size := range map[string]float64{"clipped": 3, "not clipped": 0.01} {
		e, clipped := distance(lowp.FP64, base, base, 12, size)
		require.Less(t, e, 1e-13, name)
		require.Equal(t, map[string]int{"clipped": 12, "not clipped": 0}[name], clipped)
		e, _ = distance(lowp.FP32, base, base, 12, size)
		require.Less(t, e, 1e-5, name)
		e, _ = distance(lowp.BF16, base, base, 12, size)
		require.Less(t, e, 1e-5, "%s: masters are fp32 beside bf16 weights", name)
	}
	// Negative controls: each constant matters.
	for name, change := range map[string]func(*Config){
		"lr": func(c *Config) { c.LR *= 1.01 }, "beta1": func(c *Config) { c.Beta1 = 0.91 }, "beta2": func(c *Config) { c.Beta2 = 0.96 },
		"eps": func(c *Config) { c.Eps = 1e-3 }, "decay": func(c *Config) { c.Weight = 0.11 }, "clip": func(c *Config) { c.Clip = 1.1 },
	} {
		other := base
		change(&other)
		e, _ := distance(lowp.FP64, base, other, 12, 3)
		require.Greater(t, e, 1e-6, name)
	}
}

// The first step moves every weight by lr·sign(g), whatever the gradient's size: m̂/√v̂ = g/|g|.
func TestFirstStepIsTheSign(t *testing.T) {
	c := base
	c.Weight, c.Clip = 0, 0
	ps := params(lowp.FP64, 5)
	before := append([]float64(nil), ps[0].W.F64()...)
	for i := range ps[0].Grad.Len() {
		ps[0].Grad.Set(i, math.Pow(-10, float64(i%5)))
	}
	dev := device.New(device.Options{})
	dev.At(1, 0, device.Opt)
	alone(c, ps).Step(dev, 1, 0.5)
	for i, w := range ps[0].W.F64() {
		require.InDelta(t, before[i]-0.5*math.Copysign(1, ps[0].Grad.Value(i)), w, 1e-7)
	}
}

// docs/facts.md, Training step: coef = clip/(norm+1e-6), at most 1; a norm below the clip changes no bit of the gradient.
func TestClipping(t *testing.T) {
	moment := func(clip, g float64) float64 {
		c := base
		c.Clip = clip
		p := nn.NewParam("w", lowp.FP64, false, 1)
		p.Grad.Set(0, g)
		a, dev := alone(c, []*nn.Param{p}), device.New(device.Options{})
		dev.At(1, 0, device.Opt)
		norm, _ := a.Step(dev, 1, 0)
		require.Equal(t, math.Abs(g), norm.Value(0), "the norm is of the gradient before clipping")
		return momentsOf(a, 0).M.Value(0)
	}
	c1 := 1 - base.Beta1
	require.Equal(t, c1*0.5, moment(1, 0.5))
	require.Equal(t, c1*0.5, moment(0, 0.5), "0 is no clipping")
	require.Equal(t, c1*1e6, moment(0, 1e6))
	require.InEpsilon(t, c1*(-4*2/(4+1e-6)), moment(2, -4), 1e-15)
	require.NotEqual(t, c1, moment(1, 1), "at the clip itself the 1e-6 shows")
}

// Weights in bf16 are what their masters round to; gradients are left as they were.
func TestMastersAndWeights(t *testing.T) {
	ps := params(lowp.BF16, 6)
	a, dev := alone(base, ps), device.New(device.Options{})
	for i := range ps[0].Grad.Len() {
		ps[0].Grad.Set(i, 1+float64(i))
	}
	before := append([]float32(nil), ps[0].Grad.F32()...)
	for step := 1; step <= 3; step++ {
		dev.At(step, 0, device.Opt)
		a.Step(dev, step, 1e-4)
	}
	require.Equal(t, before, ps[0].Grad.F32())
	differ := 0
	for _, p := range ps {
		for i := range p.W.Len() {
			require.Equal(t, lowp.BF16.Round(p.Master.F32()[i]), p.W.F32()[i])
			if p.Master.F32()[i] != p.W.F32()[i] {
				differ++
			}
		}
	}
	require.NotZero(t, differ, "a master that is only its weight is none")
}

// Every Call of a step reads all that its outputs depend on: the same reads, the same bits.
func TestStepIsReproducible(t *testing.T) {
	run := func() []byte {
		ps := params(lowp.FP32, 8)
		a, dev := alone(base, ps), device.New(device.Options{})
		for step := 1; step <= 5; step++ {
			for i := range ps[0].Grad.Len() {
				ps[0].Grad.Set(i, math.Sin(float64(i*step)))
			}
			dev.At(step, 0, device.Opt)
			a.Step(dev, step, base.Rate(int64(step), 5))
		}
		return append([]byte(nil), ps[0].Master.Bytes(nil)...)
	}
	require.Equal(t, run(), run())
}

// From the second step on, a step allocates nothing.
func TestStepAllocatesNothing(t *testing.T) {
	ps := params(lowp.FP32, 9)
	a, dev, step := alone(base, ps), device.New(device.Options{}), 0
	require.Zero(t, testing.AllocsPerRun(20, func() {
		step++
		dev.At(step, 0, device.Opt)
		a.Step(dev, step, 1e-3)
	}))
}

func BenchmarkStep(b *testing.B) {
	ps := []*nn.Param{nn.NewParam("w", lowp.FP32, true, 1024, 1024)}
	for i := range ps[0].Grad.Len() {
		ps[0].Grad.Set(i, 1e-3)
	}
	a, dev, step := alone(base, ps), device.New(device.Options{}), 0
	b.ReportAllocs()
	for b.Loop() {
		step++
		dev.At(step, 0, device.Opt)
		a.Step(dev, step, 1e-3)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(ps[0].W.Len()), "ns/weight")
}
