package lowp

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every code of the 16-bit formats survives decoding and encoding; NaN stays NaN.
func TestCodesRoundTrip(t *testing.T) {
	for _, f := range []Format{BF16, FP16} {
		for c := range uint32(1 << 16) {
			v := f.Decode(c)
			require.Equal(t, c, f.Encode(v), "%v code %04x", f, c)
			if v == v {
				require.Equal(t, math.Float32bits(v), math.Float32bits(f.Round(v)), "%v code %04x rounds to itself", f, c)
			}
		}
	}
}

// Between every two neighbouring values: the midpoint goes to the even code, and a float32 step
// either side of it to the nearer. The neighbours are exact in float32 and so is the midpoint.
func TestRoundsToNearestEven(t *testing.T) {
	for _, f := range []Format{BF16, FP16} {
		inf := f.Encode(float32(math.Inf(1)))
		for c := range inf {
			lo := f.Decode(c)
			hi := float64(f.Decode(c + 1))
			if c+1 == inf {
				hi = 2*float64(lo) - float64(f.Decode(c-1))
			}
			mid := float32((float64(lo) + hi) / 2)
			even := c
			if c&1 == 1 {
				even++
			}
			require.Equal(t, even, f.Encode(f.Round(mid)), "%v midpoint above %04x", f, c)
			require.Equal(t, even|1<<15, f.Encode(f.Round(-mid)))
			require.Equal(t, c, f.Encode(f.Round(math.Nextafter32(mid, 0))))
			require.Equal(t, c+1, f.Encode(f.Round(math.Nextafter32(mid, math.MaxFloat32))))
		}
	}
}

// Known encodings of IEEE 754 half and of bfloat16.
func TestKnownCodes(t *testing.T) {
	for _, k := range []struct {
		f Format
		x float32
		c uint32
	}{{FP16, 1, 0x3c00}, {FP16, 65504, 0x7bff}, {FP16, 0x1p-24, 1}, {FP16, -2, 0xc000}, {BF16, 1, 0x3f80}, {BF16, 256, 0x4380}, {FP32, 1, 0x3f800000}} {
		require.Equal(t, k.c, k.f.Encode(k.x))
	}
	require.Equal(t, float32(math.Float64frombits(0x3fb9a00000000000)), BF16.Round(0.1), "FACTS §1: bf16 0.1")
	require.True(t, math.IsInf(float64(FP16.Round(65520)), 1))
	require.Equal(t, float32(65504), FP16.Round(65519))
}

func TestSliceEqualsElement(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, f := range []Format{FP32, BF16, FP16} {
		x := make([]float32, 4096)
		for i := range x {
			x[i] = math.Float32frombits(r.Uint32())
		}
		y := append([]float32(nil), x...)
		f.RoundSlice(y)
		for i := range x {
			want := math.Float32bits(f.Round(x[i]))
			if f == FP32 {
				want = math.Float32bits(x[i])
			}
			require.Equal(t, want, math.Float32bits(y[i]))
		}
		back := f.FromBytes(f.AppendBytes(nil, y))
		for i := range y {
			require.Equal(t, math.Float32bits(y[i]), math.Float32bits(back[i]))
		}
	}
}

func TestUlps(t *testing.T) {
	require.EqualValues(t, 1, FP32.Ulps(1, math.Nextafter32(1, 2)))
	require.EqualValues(t, 1, FP32.Ulps(0, float32(math.Copysign(0, -1))))
	require.EqualValues(t, 3, FP32.Ulps(math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32))
	require.EqualValues(t, 1, BF16.Ulps(1, 1.0078125))
	require.EqualValues(t, 0, Ulps64(2, 2))
}

func TestFMA32IsCorrectlyRounded(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	double := 0
	for range 200000 {
		a, b := float32(r.NormFloat64()), float32(r.NormFloat64())
		c := float32(r.NormFloat64() * math.Ldexp(1, r.IntN(80)-40))
		if r.IntN(3) == 0 { // just under a midpoint of float32, by less than float64 sees: a·b = 2⁻²⁴(1 − i²·2⁻⁴⁶)
			i := float32(1+r.IntN(8)) * 0x1p-23
			a, b, c = 1+i, 0x1p-24*(1-i), math.Float32frombits(0x3f800001+uint32(r.IntN(1000))*2)
		}
		exact := new(big.Float).SetPrec(600).SetFloat64(float64(a))
		exact.Mul(exact, new(big.Float).SetPrec(600).SetFloat64(float64(b)))
		exact.Add(exact, new(big.Float).SetPrec(600).SetFloat64(float64(c)))
		want, _ := exact.Float32()
		if want == 0 {
			continue
		}
		require.Equal(t, math.Float32bits(want), math.Float32bits(FMA32(a, b, c)), "%x·%x+%x", a, b, c)
		if float32(math.FMA(float64(a), float64(b), float64(c))) != want {
			double++
		}
	}
	require.Positive(t, double, "the sample must hold cases that rounding twice gets wrong")
}

func TestFMA32WhereRoundingTwiceFails(t *testing.T) {
	// 1 + 2⁻²⁴ is a midpoint of float32; 2⁻⁸⁰ more decides it upwards, and float64 cannot hold that.
	c, a, b := float32(1), float32(0x1p-12), float32(0x1p-12)
	require.Equal(t, float32(1), FMA32(a, b, c), "the midpoint itself goes to even")
	c = math.Nextafter32(1, 2)
	require.Equal(t, float32(0x1.000004p0), FMA32(a, b, c))
	x, y, z := float32(0x1.000002p0), float32(0x1.000002p-24), float32(0x1.000002p30)
	exact := new(big.Float).SetPrec(300).Mul(big.NewFloat(float64(x)), big.NewFloat(float64(y)))
	exact.SetPrec(300).Add(exact, big.NewFloat(float64(z)))
	want, _ := exact.Float32()
	require.Equal(t, want, FMA32(x, y, z))
}

func TestParse(t *testing.T) {
	f, err := Parse("bf16")
	require.NoError(t, err)
	require.Equal(t, BF16, f)
	_, err = Parse("fp7")
	require.ErrorContains(t, err, "fp32, bf16, fp16")
}
