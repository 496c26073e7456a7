package moe

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/quant"
	"firstbit/reduce"
)

// grouped is experts with rows, and what a pass through them made.
type grouped struct {
	x         Experts
	offsets   *device.Tensor
	in, dy    *device.Tensor
	prob      *device.Tensor
	y, dx, dp *device.Tensor
}

func filled(seed uint64, f lowp.Format, std float64, shape ...int) *device.Tensor {
	t, r := device.NewTensor(f, shape...), rand.New(rand.NewPCG(seed, 2))
	for i := range t.Len() {
		t.Set(i, r.NormFloat64()*std)
	}
	return t
}

const quantRows, quantWidth, quantHidden = 75, 40, 48

// runGroupedOn runs rows through experts, of which one has none, one a single row, and none whole blocks.
func runGroupedOn(dev *device.Device, r *quant.Recipe) *grouped {
	g := &grouped{offsets: device.NewTensor(lowp.INT32, 5)}
	copy(g.offsets.I32(), []int32{0, 37, 37, 38, quantRows})
	g.x = Experts{Config: Config{Experts: 4, TopK: 1, Hidden: quantHidden, TileM: 16, TileN: 16, TileSub: 4}, sources: 1,
		W1: nn.NewParam("w1", lowp.BF16, true, 4, quantWidth, quantHidden), W2: nn.NewParam("w2", lowp.BF16, true, 4, quantHidden, quantWidth)}
	g.in, g.dy = filled(1, lowp.BF16, 1, quantRows, quantWidth), filled(2, lowp.BF16, 1e-3, quantRows, quantWidth)
	g.prob = device.NewTensor(lowp.FP32, quantRows)
	for i := range quantRows {
		g.prob.F32()[i] = 0.25 + float32(i%4)/8
	}
	dev.At(1, 0, device.Init)
	for i, p := range []*nn.Param{g.x.W1, g.x.W2} {
		p.Master.CopyFrom(filled(uint64(3+i), lowp.FP32, 0.2, p.W.Shape()...))
		p.W.CopyFrom(p.Master)
		if r != nil {
			quant.Quantise(p, r)
			quant.Update(dev, p)
		}
	}
	dev.At(1, 0, device.Fwd)
	g.y = g.x.Forward(dev, g.in, g.prob, g.offsets)
	dev.Enter(device.Bwd)
	g.dx, g.dp = g.x.Backward(dev, g.dy)
	return g
}

func (g *grouped) made() []*device.Tensor {
	return []*device.Tensor{g.y, g.dx, g.dp, g.x.W1.Grad, g.x.W2.Grad}
}

// Products of quantised experts are those of bf16 within the error of the codes, and an expert without rows has a gradient of zeros.
func TestQuantisedExpertsAreNear(t *testing.T) {
	plain := runGroupedOn(device.New(device.Options{}), nil)
	for _, c := range []struct {
		r    quant.Recipe
		most float64
	}{{quant.Recipe{Scheme: quant.FP8}, 0.12}, {quant.Recipe{Scheme: quant.MXFP8}, 0.1}, {quant.Recipe{Scheme: quant.MXFP8, Floor: true}, 0.12},
		{quant.Recipe{Scheme: quant.NVFP4}, 0.4}, {quant.Recipe{Scheme: quant.NVFP4, Words: &quant.Words{Seed: 1}}, 0.4}} {
		g := runGroupedOn(device.New(device.Options{}), &c.r)
		for i, want := range plain.made() {
			diff, norm := 0.0, 0.0
			for j := range want.Len() {
				d := g.made()[i].Value(j) - want.Value(j)
				diff, norm = diff+float64(d*d), norm+float64(want.Value(j)*want.Value(j))
			}
			off := math.Sqrt(diff / norm)
			require.Less(t, off, c.most, "%+v %d", c.r, i)
			require.Greater(t, off, 0.01, "negative control: it is quantised")
		}
		for _, v := range g.x.W1.Grad.F32()[quantWidth*quantHidden : 2*quantWidth*quantHidden] {
			require.Zero(t, v)
		}
	}
}

// An expert's part of a grouped product on blocks is the linear layer of its rows and its weight, to the bit: no block reaches into
// another expert's.
func TestQuantisedExpertsAreLinearLayers(t *testing.T) {
	for _, floor := range []bool{false, true} {
		r := &quant.Recipe{Scheme: quant.MXFP8, Floor: floor}
		g := runGroupedOn(device.New(device.Options{}), r)
		for e := range 4 {
			lo, hi := int(g.offsets.I32()[e]), int(g.offsets.I32()[e+1])
			if lo == hi {
				continue
			}
			dev := device.New(device.Options{})
			p := nn.NewParam("w", lowp.BF16, true, quantWidth, quantHidden)
			n := p.Master.Len()
			copy(p.Master.F32(), g.x.W1.Master.F32()[e*n:])
			quant.Quantise(p, r)
			dev.At(1, 0, device.Init)
			quant.Update(dev, p)
			dev.At(1, 0, device.Fwd)
			x := device.NewTensor(lowp.BF16, hi-lo, quantWidth)
			copy(x.F32(), g.in.F32()[lo*quantWidth:])
			require.Equal(t, nn.Fprop(x, p).Run(dev, "w1").F32(), g.x.h.F32()[lo*quantHidden:hi*quantHidden])

			w2 := nn.NewParam("w", lowp.BF16, true, quantHidden, quantWidth)
			copy(w2.Master.F32(), g.x.W2.Master.F32()[e*n:])
			quant.Quantise(w2, r)
			a, dy := device.NewTensor(lowp.BF16, hi-lo, quantHidden), device.NewTensor(lowp.BF16, hi-lo, quantWidth)
			copy(a.F32(), g.x.a.F32()[lo*quantHidden:])
			copy(dy.F32(), g.dy.F32()[lo*quantWidth:])
			dev.Enter(device.Bwd)
			want := nn.Wgrad(a, dy, w2).Run(dev, "w2.dw").F32()
			require.Equal(t, want, g.x.W2.Grad.F32()[e*n:(e+1)*n])
			if hi-lo > 1 {
				require.NotEqual(t, want[:quantWidth], g.x.W2.Grad.F32()[(e+3)%4*n:][:quantWidth], "negative control")
			}
		}
	}
}

// On tensor cores that multiply with the scales themselves, products of quantised experts differ in their last bits alone: codes and scales
// meet as they do where scales are multiplied in first. Experts' rows and widths are no whole blocks.
func TestQuantisedExpertsOnTensorCores(t *testing.T) {
	set := 0
	onTensorCores := func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			for _, name := range []string{"k", "rows"} {
				if c.Plan.Has(name) {
					c.Plan, _ = c.Plan.With(reduce.PlanOf(reduce.Reduction{Name: name, MMA: "blackwell"}))
					set++
				}
			}
			next(c)
		}
	}
	for _, r := range []quant.Recipe{{Scheme: quant.FP8}, {Scheme: quant.MXFP8}, {Scheme: quant.NVFP4}} {
		set = 0
		plain, dev := runGroupedOn(device.New(device.Options{}), &r), device.New(device.Options{}, onTensorCores)
		g := runGroupedOn(dev, &r)
		require.NoError(t, dev.Err())
		differ := 0
		for i, want := range plain.made() {
			diff, norm := 0.0, 0.0
			for j := range want.Len() {
				d := g.made()[i].Value(j) - want.Value(j)
				if d != 0 {
					differ++
				}
				diff, norm = diff+float64(d*d), norm+float64(want.Value(j)*want.Value(j))
			}
			require.Less(t, math.Sqrt(diff/norm), 2e-3, "%v %d", r.Scheme, i) // bf16 rounds some of them the other way
		}
		require.Equal(t, r.Scheme == quant.NVFP4, differ == 0, "negative control: other sums, but for values that add exactly either way")
		require.Equal(t, 6, set)
	}
}
