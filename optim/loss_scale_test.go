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

// scaler is Megatron's DynamicGradScaler, line by line, in float64.
type scaler struct {
	LossScaleConfig
	scale              float64
	growth, hysteresis int
}

func (s *scaler) update(overflow bool) {
	if overflow {
		s.growth = 0
		s.hysteresis--
		if s.hysteresis <= 0 {
			s.scale = math.Max(s.scale*0.5, s.Min)
		}
		return
	}
	s.growth++
	if s.growth == s.GrowthInterval {
		s.growth = 0
		s.hysteresis = s.LossScaleConfig.Hysteresis
		s.scale *= 2
	}
}

// scaledRun runs steps, in some of which a gradient overflows, and calls after with each.
func scaledRun(t *testing.T, c LossScaleConfig, steps int, after func(step int, overflow, taken bool, a *AdamW, ps []*nn.Param)) {
	ps := params(lowp.FP16, 3)
	a, dev, r := alone(base, ps), device.New(device.Options{}), rand.New(rand.NewPCG(7, 7))
	a.Scale = NewLossScale(c)
	taken := 0
	for step := 1; step <= steps; step++ {
		dev.At(step, 0, device.Fwd)
		scale := a.Scale.Gradient(dev).Value(0)
		require.Equal(t, a.Scale.Scale.Value(0), scale)
		overflow := r.IntN(3) == 0
		for _, p := range ps {
			for i := range p.Grad.Len() {
				p.Grad.Set(i, scale*r.NormFloat64())
			}
		}
		if overflow {
			ps[r.IntN(2)].Grad.Set(r.IntN(7), []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[r.IntN(3)])
		}
		dev.At(step, 0, device.Opt)
		_, ok := a.Step(dev, taken+1, 0.01)
		if ok {
			taken++
		}
		after(step, overflow, ok, a, ps)
	}
}

// The scale, its trackers and which steps are skipped are Megatron's.
func TestLossScaleIsMegatrons(t *testing.T) {
	for _, c := range []LossScaleConfig{{1 << 10, 1, 2, 2}, {1 << 4, 4, 3, 1}, {1 << 16, 1, 1, 3}, {1, 1, 1000, 2}, {0x1p-3, 0x1p-5, 2, 1}} {
		want := scaler{c, c.Initial, 0, c.Hysteresis}
		skipped := 0
		scaledRun(t, c, 60, func(step int, overflow, taken bool, a *AdamW, _ []*nn.Param) {
			require.Equal(t, !overflow, taken, step)
			want.update(overflow)
			require.Equal(t, []float64{want.scale, float64(want.growth), float64(want.hysteresis)},
				[]float64{a.Scale.Scale.Value(0), a.Scale.Growth.Value(0), a.Scale.Hysteresis.Value(0)}, "%v after step %d", c, step)
			if overflow {
				skipped++
			}
		})
		require.True(t, skipped > 10 && skipped < 50)
	}
}

// A step that is skipped moves no weight, master or moment. One that is taken has the bits of a run without a scale on the same gradients.
func TestSkippedStepsMoveNothing(t *testing.T) {
	other := params(lowp.FP16, 3)
	plain, dev, step := alone(base, other), device.New(device.Options{}), 0
	scaledRun(t, LossScaleConfig{1 << 8, 1, 2, 1}, 30, func(_ int, overflow, taken bool, a *AdamW, ps []*nn.Param) {
		if taken {
			step++
			for i, p := range ps { // unscaled where they lie
				other[i].Grad.CopyFrom(p.Grad)
			}
			dev.At(step, 0, device.Opt)
			plain.Step(dev, step, 0.01)
		}
		for i, p := range ps {
			s, u := momentsOf(a, i), momentsOf(plain, i)
			require.Equal(t, other[i].W.F32(), p.W.F32())
			require.Equal(t, u.Master.F32(), s.Master.F32())
			require.Equal(t, u.M.F32(), s.M.F32())
			require.Equal(t, u.V.F32(), s.V.F32())
		}
	})
	require.Greater(t, step, 10)
}

// A scale at the end of fp32 stays there.
func TestLossScaleStaysFinite(t *testing.T) {
	s, dev := NewLossScale(LossScaleConfig{0x1p126, 1, 1, 1}), device.New(device.Options{})
	for step := 1; step <= 3; step++ {
		dev.At(step, 0, device.Opt)
		s.unscale(dev, nil, parallel.NewWorld(parallel.Layout{DP: 1}, 1).Rank(0).All())
	}
	require.Equal(t, 0x1p127, s.Scale.Value(0))
}

// One rank's overflow is every rank's: all skip the step, and have the same weights after the next.
func TestOverflowIsJoinedOverRanks(t *testing.T) {
	const ranks, steps = 3, 4
	w := parallel.NewWorld(parallel.Layout{DP: ranks}, 2)
	var taken [ranks][]bool
	var weights [ranks][]float32
	var scales [ranks]float64
	require.NoError(t, w.Run(func(r parallel.Rank) error {
		ps := params(lowp.FP16, 3)
		a, dev := plain(base, ps, r, 10), device.New(device.Options{Rank: r.Index, At: w.At(r.Index)})
		a.Scale = NewLossScale(LossScaleConfig{1 << 8, 1, 100, 1})
		for step := 1; step <= steps; step++ {
			for _, p := range ps {
				for i := range p.Grad.Len() {
					p.Grad.Set(i, float64(i+step))
				}
			}
			if r.Index == 1 && step == 2 {
				ps[0].Grad.Set(14, math.Inf(1)) // of another rank's shard, once it is summed
			}
			dev.At(step, 0, device.Opt)
			_, ok := a.Step(dev, step, 0.01)
			taken[r.Index] = append(taken[r.Index], ok)
		}
		for _, p := range ps {
			weights[r.Index] = append(weights[r.Index], p.W.F32()...)
		}
		scales[r.Index] = a.Scale.Scale.Value(0)
		return dev.Err()
	}))
	for r := range ranks {
		require.Equal(t, []bool{true, false, true, true}, taken[r])
		require.Equal(t, weights[0], weights[r])
		require.Equal(t, float64(1<<7), scales[r])
	}
}

func TestScaledStepAllocatesNothing(t *testing.T) {
	ps := params(lowp.FP16, 9)
	a, dev, step := alone(base, ps), device.New(device.Options{}), 0
	a.Scale = NewLossScale(DefaultLossScale)
	require.Zero(t, testing.AllocsPerRun(20, func() {
		step++
		dev.At(step, 0, device.Fwd)
		a.Scale.Gradient(dev)
		dev.At(step, 0, device.Opt)
		a.Step(dev, step, 1e-3)
	}))
}
