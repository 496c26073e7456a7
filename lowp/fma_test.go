package lowp

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// fmaExact is a·b + c in 700 bits, which no three float32 exceed, rounded once. A zero has the
// sign that IEEE 754-2019 §6.3 gives it; what is not finite is left to float64, exact there.
func fmaExact(a, b, c float32) float32 {
	x, y, z := float64(a), float64(b), float64(c)
	if w := float64(x*y) + z; math.IsNaN(w) || math.IsInf(w, 0) || x*y == 0 {
		return float32(w)
	}
	wide := func(v float64) *big.Float { return new(big.Float).SetPrec(700).SetFloat64(v) }
	sum := wide(x)
	sum.Mul(sum, wide(y)).Add(sum, wide(z))
	if sum.Sign() == 0 {
		return 0 // exact cancellation of two numbers that are not 0
	}
	f, _ := sum.Float32()
	return f
}

func same(t *testing.T, a, b, c float32) {
	t.Helper()
	want, got := fmaExact(a, b, c), FMA32(a, b, c)
	if want != want {
		require.True(t, got != got, "%x·%x+%x = %x, want NaN", a, b, c, got)
		return
	}
	require.Equal(t, math.Float32bits(want), math.Float32bits(got), "%x·%x+%x = %x, want %x", a, b, c, got, want)
}

// All triples of values at edges: zeros, subnormals, powers of two and their neighbours,
// the largest, infinities and NaN, of both signs.
func TestFMA32AtEdges(t *testing.T) {
	var edges []float32
	for _, x := range []float32{0, 0x1p-149, 0x1p-148, 0x1.fffffcp-127, 0x1p-126, 0x1.000002p-126, 0x1p-75, 0x1.000002p-75,
		0x1p-24, 0x1p-12, 0.5, 0x1.fffffep-1, 1, 0x1.000002p0, 0x1.800002p0, 0x1p12, 0x1.fffffep23, 0x1p24, 0x1p103, 0x1p127,
		0x1.fffffep127, float32(math.Inf(1)), float32(math.NaN())} {
		edges = append(edges, x, -x, float32(math.Copysign(float64(x), -1)))
	}
	for _, a := range edges {
		for _, b := range edges {
			for _, c := range edges {
				same(t, a, b, c)
			}
		}
	}
}

func TestFMA32IsCorrectlyRounded(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	bits := func() float32 { return math.Float32frombits(r.Uint32()) }
	double := 0
	for range 20000 {
		same(t, bits(), bits(), bits())
		// Sums near the smallest normal, where the result has fewer bits than usual.
		a, b := float32(1+r.Float64()), float32(math.Ldexp(1+r.Float64(), -126-r.IntN(30)))
		same(t, a, b, float32(math.Ldexp(r.Float64()-0.5, -126-r.IntN(24))))
		// Just under a midpoint, by less than float64 sees: a·b = 2⁻²⁴(1 − i²·2⁻⁴⁶).
		i := float32(1+r.IntN(8)) * 0x1p-23
		a, b, c := 1+i, 0x1p-24*(1-i), math.Float32frombits(0x3f800001+uint32(r.IntN(1000))*2)
		same(t, a, b, c)
		same(t, -a, b, -c)
		same(t, a, b, -c)
		if float32(math.FMA(float64(a), float64(b), float64(c))) != fmaExact(a, b, c) {
			double++
		}
	}
	require.Positive(t, double, "negative control: rounding twice gets some of these wrong")
}

func TestFMA32WhereRoundingTwiceFails(t *testing.T) {
	// 1+2⁻²³ and 1+2⁻²² have their midpoint 2⁻²⁴ above the lower; the product is 2⁻²⁴ less 2⁻⁷⁰,
	// which float64 cannot see beside 1, and twice rounded the sum goes to the even upper one.
	a, b, c := float32(1+0x1p-23), float32(0x1p-24*(1-0x1p-23)), float32(1+0x1p-23)
	require.Equal(t, c, FMA32(a, b, c))
	require.Equal(t, float32(1+0x1p-22), float32(math.FMA(float64(a), float64(b), float64(c))))
	require.Equal(t, float32(1), FMA32(0x1p-12, 0x1p-12, 1), "the midpoint itself goes to even")
	require.Equal(t, float32(-0x1p-46), FMA32(1+0x1p-23, 1-0x1p-23, -1), "the product is not rounded first")
}

func FuzzFMA32(f *testing.F) {
	f.Add(uint32(0x3f800001), uint32(0x337ffffe), uint32(0x3f800001))
	f.Fuzz(func(t *testing.T, a, b, c uint32) {
		same(t, math.Float32frombits(a), math.Float32frombits(b), math.Float32frombits(c))
	})
}

func BenchmarkFMA32(b *testing.B) {
	x := float32(0)
	for range b.N {
		x = FMA32(0.999, x, 0.1)
	}
	sink = x
}
