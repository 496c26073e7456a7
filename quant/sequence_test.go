package quant

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
)

// A rank's part of a weight has the codes that it has in the whole: its scale is that of the whole weight, by the joined amax. By its own amax
// it would be another.
func TestPartsOfAWeightAreScaledAsTheWhole(t *testing.T) {
	const d, f = 32, 64
	x := gaussian(3, lowp.FP32, 1, d, f)
	for _, name := range []string{"fp8", "nearest"} {
		for _, joined := range []bool{true, false} {
			update := func(lo, hi int, largest Largest) *Weight {
				p := nn.NewParam("w", lowp.BF16, true, d, hi-lo)
				for r := range d {
					copy(p.Master.F32()[r*(hi-lo):][:hi-lo], x.F32()[r*f+lo:])
				}
				Quantise(p, recipes[name]())
				q := Of(p)
				q.Shared = &Shared{Whole: largest}
				dev := device.New(device.Options{})
				dev.At(1, 0, device.Opt)
				Update(dev, p)
				return q
			}
			own := func(_ *device.Device, _ string, x *device.Tensor) *device.Tensor { return x }
			x.F32()[5] = 1e6 // in the first half
			whole := update(0, f, own)
			second := update(f/2, f, func(_ *device.Device, _ string, x *device.Tensor) *device.Tensor {
				if joined {
					x.F32()[0] = max(x.F32()[0], 1e6)
				}
				return x
			})
			same := true
			for r := range d {
				for j := range f / 2 {
					same = same && whole.Fprop.Dequantised(OfWeight).F32()[r*f+f/2+j] == second.Fprop.Dequantised(OfWeight).F32()[r*f/2+j]
				}
			}
			require.Equal(t, joined, same, name)
		}
	}
}

func TestFloorPower(t *testing.T) {
	for scale, want := range map[float32]float32{1: 1, 1.5: 1, 3: 2, 448.0 / 3: 128, math.MaxFloat32: 0x1p127, 0x1p-20: 0x1p-20} {
		require.Equal(t, want, floorPower(scale))
	}
	require.True(t, math.IsNaN(float64(floorPower(nan32))))
	for n := -40; n < 40; n++ { // what takes an amax' place in a product rounds nothing
		a := 2688 * float32(math.Ldexp(1, n))
		require.Equal(t, float32(math.Ldexp(1, n+3)), float32(float32(a*(2688*8))*(1.0/(2688*2688))))
	}
}

// A block of tokens mixed by the Hadamard matrix, its rows as they are by the matrix by rows.
func TestHadamardAlongTokens(t *testing.T) {
	x := gaussian(4, lowp.FP32, 1, 2*nvBlock, 5)
	dev := device.New(device.Options{})
	dev.At(1, 0, device.Bwd)
	y := transformed(dev, "h", x).F32()
	for b := range 2 {
		columns, want := make([]float32, nvBlock*5), make([]float32, nvBlock*5)
		transpose(columns, x.F32()[b*nvBlock*5:][:nvBlock*5], 5)
		randomHadamard(want, columns, foldOf("seq", nvBlock))
		for j := range 5 {
			for i := range nvBlock {
				require.Equal(t, want[j*nvBlock+i], y[(b*nvBlock+i)*5+j])
			}
		}
	}
}
