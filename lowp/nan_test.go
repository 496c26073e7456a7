package lowp

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// onBothPaths runs a check with vector registers, where there are any, and without.
func onBothPaths(t *testing.T, check func(t *testing.T)) {
	defer func(v bool) { vectorised = v }(vectorised)
	if vectorised {
		t.Run("lanes", check)
	}
	vectorised = false
	t.Run("plain", check)
}

// Every sign and every end of a payload, signalling NaNs among them.
var nans = []uint32{0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff, 0x7fc12345, 0xffa00000}

// The patterns as IEEE 754-2019 §6.2.1 and the OCP specifications have them, in every format that has NaNs; of the codes of a format none
// but NaN's code is a NaN's that Encode gives.
func TestOneNaN(t *testing.T) {
	for f, want := range map[Format]uint64{FP32: 0x7fc00000, BF16: 0x7fc0, FP16: 0x7e00, E4M3: 0x7f, E5M2: 0x7e, E8M0: 0xff} {
		require.Equal(t, want, f.NaN(), f)
		for _, b := range nans {
			x := math.Float32frombits(b)
			require.EqualValues(t, want, f.Encode(x), "%v %08x", f, b)
			require.Equal(t, f.AppendBytes(nil, []float32{1, float32(math.NaN()), 2}), f.AppendBytes(nil, []float32{1, x, 2}), "%v %08x", f, b)
		}
		v := f.Decode(uint32(want))
		require.True(t, v != v, f)
	}
	require.Equal(t, uint64(0x7ff8000000000000), FP64.NaN())
	require.Zero(t, E2M1.NaN(), "it has none")
	for _, b := range []uint64{0x7ff8000000000000, 0xfff8000000000000, 0x7ff0000000000001, math.MaxUint64} {
		require.Equal(t, FP64.NaN(), Bits(math.Float64frombits(b)))
	}
	for _, x := range []float64{0, math.Copysign(0, -1), 1, math.Inf(-1), math.MaxFloat64} {
		require.Equal(t, math.Float64bits(x), Bits(x))
	}
}

// A NaN or an infinity at every place of slices of every length, whatever their alignment.
func TestHasNaN(t *testing.T) {
	inf := float32(math.Inf(1))
	onBothPaths(t, func(t *testing.T) {
		memory := make([]float32, 80)
		for lo := range 3 {
			for n := range 70 {
				x := memory[lo:][:n]
				for i := range x {
					x[i] = []float32{math.MaxFloat32, -math.MaxFloat32, 0, -1}[i%4]
				}
				require.False(t, HasNaN(x))
				require.True(t, Finite(x))
				for i := range x {
					was := x[i]
					for _, b := range nans {
						x[i] = math.Float32frombits(b)
						require.True(t, HasNaN(x) && !Finite(x), "%d of %d: %08x", i, n, b)
					}
					for _, v := range []float32{inf, -inf} {
						x[i] = v
						require.True(t, !HasNaN(x) && !Finite(x), "%d of %d: %v", i, n, v)
					}
					x[i] = was
				}
			}
		}
	})
}

func TestHasNaN64(t *testing.T) {
	for n := range 20 {
		x := make([]float64, n)
		for i := range x {
			x[i] = []float64{math.MaxFloat64, -math.MaxFloat64, 0}[i%3]
		}
		require.False(t, HasNaN64(x))
		require.True(t, Finite64(x))
		for i := range x {
			was := x[i]
			for _, b := range []uint64{0x7ff8000000000000, 0xfff0000000000001, math.MaxUint64} {
				x[i] = math.Float64frombits(b)
				require.True(t, HasNaN64(x) && !Finite64(x), "%d of %d: %x", i, n, b)
			}
			x[i] = math.Inf(-1)
			require.True(t, !HasNaN64(x) && !Finite64(x), "%d of %d", i, n)
			x[i] = was
		}
	}
}

// xorDefined and codesDefined are XOR and bf16's AppendBytes element by element.
func xorDefined(x []float32) (xor uint64) {
	for _, v := range x {
		if v != v {
			xor ^= 0x7ff8000000000000
		} else {
			xor ^= math.Float64bits(float64(v))
		}
	}
	return xor
}

func codesDefined(x []float32) (b []byte) {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(BF16.Round(v))>>16))
	}
	return b
}

func TestXORAndCodesAreTheirDefinitions(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	onBothPaths(t, func(t *testing.T) {
		for n := range 100 {
			x := make([]float32, n+1)[1:]
			for i := range x {
				x[i] = BF16.Round(float32(r.NormFloat64()))
			}
			check := func(what string) {
				require.Equal(t, xorDefined(x), XOR(x), "%s, %d elements", what, n)
				require.Equal(t, codesDefined(x), BF16.AppendBytes(nil, x), "%s, %d elements", what, n)
			}
			check("values of bf16")
			for range min(n, 3) {
				i := r.IntN(n)
				was := x[i]
				x[i] = math.Float32frombits(nans[r.IntN(len(nans))])
				check("a NaN")
				x[i] = math.Float32frombits(0x3f808001)
				check("no value of bf16")
				x[i] = float32(math.Inf(-1))
				check("an infinity")
				x[i] = was
			}
		}
	})
	require.NotEqual(t, xorDefined([]float32{1, float32(math.NaN())}), XOR([]float32{1, 2}), "negative control")
	require.Equal(t, xorDefined([]float32{1, float32(math.NaN())}), XOR64([]float64{1, math.Float64frombits(0xfff8000000000009)}))
}
