package libm

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	inf     = math.Inf(1)
	nan     = math.NaN()
	zeroNeg = math.Copysign(0, -1)
)

// What IEEE 754-2019 §9.2 and C's Annex F ask of these functions at the ends; the edges of
// overflow and underflow are those of FreeBSD msun e_exp.c.
func TestSpecials(t *testing.T) {
	type pair struct{ x, want float64 }
	for _, c := range []struct {
		name  string
		f     func(float64) float64
		pairs []pair
	}{
		{"exp", Exp, []pair{
			{0, 1}, {zeroNeg, 1}, {inf, inf}, {-inf, 0}, {nan, nan}, {1e-300, 1}, {-5e-324, 1},
			{709.7827128933841, inf}, {7.09782712893383973096e+02, 0x1.fffffffffff2ap1023},
			{-7.45133219101941108420e+02, 5e-324}, {-745.1332191019412, 0}, {-745, 5e-324}, {710, inf}, {-746, 0},
		}},
		{"log", Log, []pair{
			{1, 0}, {0, -inf}, {zeroNeg, -inf}, {inf, inf}, {-1, nan}, {-inf, nan}, {nan, nan},
			{5e-324, -744.4400719213812}, {math.MaxFloat64, 709.782712893384},
		}},
		{"log1p", Log1p, []pair{
			{0, 0}, {zeroNeg, zeroNeg}, {-1, -inf}, {-2, nan}, {inf, inf}, {-inf, nan}, {nan, nan}, {5e-324, 5e-324},
			{1e-300, 1e-300}, {1, math.Ln2}, {math.MaxFloat64, 709.782712893384},
		}},
		{"sigmoid", Sigmoid[float64], []pair{
			{0, 0.5}, {zeroNeg, 0.5}, {inf, 1}, {-inf, 0}, {800, 1}, {-800, 0}, {nan, nan},
		}},
		{"silu", SiLU[float64], []pair{
			{0, 0}, {zeroNeg, zeroNeg}, {inf, inf}, {-inf, zeroNeg}, {800, 800}, {-800, zeroNeg}, {nan, nan},
		}},
		{"softplus", Softplus[float64], []pair{
			{0, math.Ln2}, {inf, inf}, {-inf, 0}, {800, 800}, {-800, 0}, {-50, 1.9287498479639178e-22}, {nan, nan},
		}},
	} {
		for _, p := range c.pairs {
			got := c.f(p.x)
			if math.IsNaN(p.want) {
				require.True(t, math.IsNaN(got), "%s(%v) = %v", c.name, p.x, got)
				continue
			}
			require.Equal(t, math.Float64bits(p.want), math.Float64bits(got), "%s(%v) = %x, want %x", c.name, p.x, got, p.want)
		}
	}
}

// float32 has edges of its own, where float64 is far from any.
func TestFloat32Edges(t *testing.T) {
	// log 2¹²⁸ = 88.72283911 lies between these two neighbours.
	require.Equal(t, float32(inf), ExpOf(float32(88.72284)))
	require.Equal(t, float32(0x1.ffff08p127), ExpOf(float32(88.72283)))
	require.Equal(t, float32(0x1p-149), ExpOf(float32(-103.5)))
	require.Zero(t, ExpOf(float32(-104)))
	require.Equal(t, float32(1), Sigmoid(float32(200)))
	require.Zero(t, Sigmoid(float32(-200)))
	require.Zero(t, LogOf(float32(1)))
}

// Defined types are Floats too.
func TestDefinedTypes(t *testing.T) {
	type half float32
	require.Equal(t, half(ExpOf(float32(0.3))), ExpOf(half(0.3)))
	require.Equal(t, half(Softplus(float32(0.3))), Softplus(half(0.3)))
}

// fold is an order-sensitive digest of outputs.
func fold(h uint64, x float64) uint64 { return (h<<7 | h>>57) ^ math.Float64bits(x) }

// The bits every architecture must produce, one digest a function.
func TestGoldenBits(t *testing.T) {
	for _, c := range []struct {
		name   string
		f      func(float64) float64
		lo, hi float64
		want   uint64
	}{
		{"exp", Exp, -746, 710, 0x64ad950de8d1d0f0},
		{"log", Log, 1e-9, 1000, 0xbe9d64aef7ab7f66},
		{"log1p", Log1p, -1, 50, 0x946af2e31610dfe1},
		{"cos", Cos, 0, math.Pi, 0x9f0f1b1f83a0b3cf},
		{"sigmoid", Sigmoid[float64], -750, 50, 0x7b5d98c402ddd4d0},
		{"silu", SiLU[float64], -750, 50, 0xcea7aea36910af63},
		{"softplus", Softplus[float64], -750, 750, 0x4f2d5e9f8a3ab9a4},
		{"exp32", func(x float64) float64 { return float64(ExpOf(float32(x))) }, -105, 89, 0x5aff28a2d3cc157a},
		{"log32", func(x float64) float64 { return float64(LogOf(float32(x))) }, 1e-9, 1000, 0x3bee06815d42d33a},
	} {
		h := uint64(0)
		for i := range 50001 {
			x := c.lo + float64(float64(c.hi-c.lo)*float64(float64(i)/50001))
			h = fold(h, c.f(x))
		}
		require.Equal(t, c.want, h, "%s: %#x", c.name, h)
	}
	require.NotEqual(t, fold(fold(0, 1), 2), fold(fold(0, 2), 1), "the digest sees order")
}
