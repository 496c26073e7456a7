package nn

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// Accumulate copies the first gradient of a step and adds those that follow, in call order.
func TestAccumulate(t *testing.T) {
	d := device.New(device.Options{})
	p := NewParam("w", lowp.BF16, true, 2)
	require.Equal(t, lowp.FP32, p.Grad.Format)
	require.Equal(t, lowp.FP32, p.Master.Format)
	dw := device.NewTensor(lowp.FP32, 2)
	p.Grad.Set(0, 99) // what the last step left
	for i, v := range []float64{1e8, 1, -1e8} {
		d.At(1, i, device.Bwd)
		dw.Set(0, v)
		dw.Set(1, math.Copysign(0, -1))
		Accumulate(d, "w.grad", p, dw)
	}
	require.Zero(t, p.Grad.F32()[0], "(1e8 + 1) − 1e8 in fp32")
	require.True(t, math.Signbit(float64(p.Grad.F32()[1])), "−0 stays −0")
	p.ZeroGrad()
	d.At(2, 0, device.Bwd)
	dw.Set(0, 7)
	Accumulate(d, "w.grad", p, dw)
	require.Equal(t, float32(7), p.Grad.F32()[0])
}

// A steady gradient that is added to once a step is computed in the parameter's place from the third step on, one that is added to more often, or
// that promises nothing, never; the values are the same. A promise that is broken is a mistake that shows.
func TestAccumulateInPlace(t *testing.T) {
	made := &device.Kernel{Name: "made", Out: device.Names("dw")}
	run := func(d *device.Device, p *Param, step, micro int) *device.Tensor {
		d.At(step, micro, device.Bwd)
		c := d.Open("w.dw", made)
		dw := c.Write("dw", lowp.FP32, 3)
		c.Body = func(*device.Call) { dw.F32()[1] = float32(10*step + micro) }
		c.Do()
		Accumulate(d, "w.grad", p, dw)
		return dw
	}
	for _, c := range []struct {
		steady bool
		micros int
		lies   bool
	}{{true, 1, true}, {true, 2, false}, {false, 1, false}} {
		d, p := device.New(device.Options{}), NewParam("w", lowp.BF16, true, 3)
		p.Accumulator = &InOrder{Steady: c.steady}
		for step := 1; step <= 5; step++ {
			p.ZeroGrad()
			want, at := 0.0, false
			for micro := range c.micros {
				dw := run(d, p, step, micro)
				at = dw.LiesIn(p.Grad, 0)
				want += float64(10*step + micro)
				require.Equal(t, "bwd w.dw", dw.From)
			}
			require.EqualValues(t, want, p.Grad.Value(1))
			require.Equal(t, "bwd w.grad", p.Grad.From)
			require.Equal(t, c.lies && step > 1, at, "step %d", step)
		}
		if c.lies {
			require.PanicsWithValue(t, "nn: w: its gradient is added to again, and was computed in its place", func() { run(d, p, 5, 1) })
		}
	}
}

// What the device's products compute, on numbers that are exact in every format.
func TestProducts(t *testing.T) {
	for _, f := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP16, lowp.FP64} {
		d := device.New(device.Options{})
		d.At(1, 0, device.Fwd)
		a, b, bt, at := device.NewTensor(f, 2, 3), device.NewTensor(f, 3, 2), device.NewTensor(f, 2, 3), device.NewTensor(f, 3, 2)
		for i := range 2 {
			for k := range 3 {
				a.Set(i*3+k, float64(i*3+k+1))
				at.Set(k*2+i, float64(i*3+k+1))
				b.Set(k*2+i, float64(k-2*i))
				bt.Set(i*3+k, float64(k-2*i))
			}
		}
		for name, y := range map[string]*device.Tensor{"NN": Multiply(NN, a, b).Run(d, "nn"), "NT": Multiply(NT, a, bt).Run(d, "nt"), "TN": Multiply(TN, at, b).Run(d, "tn")} {
			for i, want := range []float64{8, -4, 17, -13} {
				require.Equal(t, want, y.Value(i), "%s %s %d", f, name, i)
			}
			wantFormat := f
			if name == "TN" {
				wantFormat = MasterFormat(f)
			}
			require.Equal(t, wantFormat, y.Format, "%s %s", f, name)
		}
		require.Equal(t, lowp.FP32, Multiply(NN, device.NewTensor(lowp.BF16, 1, 1), device.NewTensor(lowp.BF16, 1, 1)).In(lowp.FP32).Run(d, "nn32").Format)
	}
}

func TestOperationsAllocateNothing(t *testing.T) {
	d := device.New(device.Options{})
	a, step := device.NewTensor(lowp.FP32, 2, 3), 0
	for label, run := range map[string]func(){"sum": func() { Sum(d, "sum", a, a) }, "matmul": func() { Multiply(NT, a, a).Run(d, "matmul") }} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			step++
			d.At(step, 0, device.Fwd)
			run()
		}), label)
	}
}
