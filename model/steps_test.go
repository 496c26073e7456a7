package model

import (
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/kernel/check"
	"firstbit/lowp"
)

// forwardBackward is one step of a bench without its checks.
func (b *bench) forwardBackward() {
	b.loss()
	for _, p := range b.Params() {
		p.ZeroGrad()
	}
	b.dev.At(b.step, 0, device.Bwd)
	b.Backward(b.dev, b.lm, b.extra)
}

func full(f lowp.Format, t *testing.T) *bench {
	c := small("*-E")
	c.MoE.SharedHidden = 4
	return newBench(t, c, f)
}

// From the second step on the network makes no tensors. What is left are the scans' scratch and the
// tiles of the experts; the limits leave room for pools that a collection emptied.
func TestLaterStepsAllocateLittle(t *testing.T) {
	if check.Raced() {
		t.Skip("the race detector makes pools forget")
	}
	for _, c := range []struct {
		pattern string
		most    float64
	}{{"-", 4}, {"*-", 4}, {"M", 10}, {"*-E", 12}, {"M*E-/*E", 30}} {
		b := newBench(t, small(c.pattern), lowp.FP32)
		b.routes = make([]int32, 0, 1024)
		b.forwardBackward()
		n := testing.AllocsPerRun(20, b.forwardBackward)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b.forwardBackward()
		runtime.ReadMemStats(&after)
		t.Logf("%s: %.0f allocations, %d bytes a step", c.pattern, n, after.TotalAlloc-before.TotalAlloc)
		require.LessOrEqual(t, n, c.most, c.pattern)
	}
}

// Every tensor of a step stands where it stood in the step before.
func TestStepsReuseTheirStorage(t *testing.T) {
	b := full(lowp.FP32, t)
	var outs []*device.Tensor
	b.after = func(c *device.Call) {
		for _, o := range c.Out {
			outs = append(outs, o.Tensor)
		}
	}
	b.forwardBackward()
	first := slices.Clone(outs)
	outs = outs[:0]
	b.forwardBackward()
	require.Len(t, outs, len(first))
	for i := range outs {
		require.Same(t, first[i], outs[i])
	}
}

// The same step twice is the same bits: nothing of a step is left in the next.
func TestStepsLeaveNothingBehind(t *testing.T) {
	for _, f := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP16} {
		b := full(f, t)
		grads := func() (g []uint32) {
			for _, p := range b.Params() {
				for _, v := range p.Grad.F32() {
					g = append(g, math.Float32bits(v))
				}
			}
			return g
		}
		b.forwardBackward()
		first := grads()
		b.tokens.I32()[2]++ // another step in between
		b.forwardBackward()
		require.NotEqual(t, first, grads(), "negative control")
		b.tokens.I32()[2]--
		b.forwardBackward()
		require.Equal(t, first, grads(), f)
	}
}

// No bit depends on the number of processors.
func TestProcessorsReachNoBit(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var want []float64
	for _, procs := range []int{1, 2, 5} {
		runtime.GOMAXPROCS(procs)
		c := small("*-")
		c.Width, c.Hidden, c.Vocab = 96, 200, 300 // products above the size that is split over goroutines
		b := newBench(t, c, lowp.FP32)
		b.forwardBackward()
		var got []float64
		for _, p := range b.Params() {
			for i := range p.Grad.Len() {
				got = append(got, p.Grad.Value(i))
			}
		}
		if want == nil {
			want = got
		}
		require.Equal(t, want, got, "%d", procs)
	}
}

// A low-precision step is near the float64 one, and the wider the format the nearer.
func TestFormatsAreNear(t *testing.T) {
	grads := func(f lowp.Format) (g []float64, routes []int32) {
		b := full(f, t)
		b.forwardBackward()
		for _, p := range b.Params() {
			for i := range p.Grad.Len() {
				g = append(g, p.Grad.Value(i))
			}
		}
		return g, b.routes
	}
	want, routes := grads(lowp.FP64)
	norm := 0.0
	for _, v := range want {
		norm += v * v
	}
	distance := func(f lowp.Format) float64 {
		got, r := grads(f)
		require.Equal(t, routes, r, "%s: another route is another function", f)
		d := 0.0
		for i := range want {
			d += (got[i] - want[i]) * (got[i] - want[i])
		}
		return math.Sqrt(d / norm)
	}
	fp32, fp16, bf16 := distance(lowp.FP32), distance(lowp.FP16), distance(lowp.BF16)
	t.Logf("relative distance of gradients from float64: fp32 %.1e, fp16 %.1e, bf16 %.1e", fp32, fp16, bf16)
	require.Less(t, fp32, 1e-5)
	require.Less(t, fp16, 0.02)
	require.Less(t, bf16, 0.15)
	require.Less(t, fp32, fp16)
	require.Less(t, fp16, bf16)
}

func BenchmarkStep(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, pattern := range []string{"*-*-*-*-", "*E-E"} {
		b.Run(pattern, func(b *testing.B) {
			c := small(pattern)
			c.Vocab, c.Width, c.Heads, c.KVHeads, c.HeadDim, c.Hidden = 512, 128, 4, 4, 32, 512
			c.MoE.Experts, c.MoE.Hidden, c.MoE.TileM, c.MoE.TileN, c.MoE.TileSub = 8, 128, 16, 32, 8
			n := newBench(b, c, lowp.FP32)
			n.after, n.routes = nil, make([]int32, 0, 1<<14)
			n.tokens, n.targets = device.NewTensor(lowp.INT32, 8, 64), device.NewTensor(lowp.INT32, 8, 64)
			for i := range n.tokens.I32() {
				n.tokens.I32()[i], n.targets.I32()[i] = int32(i*7%512), int32(i*11%512)
			}
			b.ReportAllocs()
			n.forwardBackward() // the first step makes the tensors
			for b.Loop() {
				n.forwardBackward()
			}
			b.ReportMetric(float64(512*b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
