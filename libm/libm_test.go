package libm

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A sampler draws an argument; a check is one function on one sample.
type sampler func(r *rand.Rand) float64

func within(lo, hi float64) sampler {
	return func(r *rand.Rand) float64 { return lo + float64((hi-lo)*r.Float64()) }
}

// binades draws a magnitude of any binade from 2^lo to 2^hi, and a sign where asked for.
func binades(lo, hi int, signed bool) sampler {
	return func(r *rand.Rand) float64 {
		x := math.Ldexp(1+float64(r.Float64()), lo+r.IntN(hi-lo))
		if signed && r.IntN(2) == 0 {
			return -x
		}
		return x
	}
}

func TestFloat64ErrorsAreAsDocumented(t *testing.T) {
	for _, c := range []struct {
		name  string
		f     func(float64) float64
		exact func(*big.Float) *big.Float
		x     sampler
		n     int
		ulps  float64
	}{
		{"exp", Exp, bigExp, within(-708, 709.78), 20000, 1},
		{"exp, every binade", Exp, bigExp, binades(-60, 9, true), 10000, 1},
		{"exp, subnormal results", Exp, bigExp, within(-745.2, -708), 5000, 1},
		{"exp, the last binades", Exp, bigExp, within(708, 709.782), 5000, 1},
		{"log", Log, bigLog, binades(-1074, 1023, false), 10000, 1},
		{"log near 1", Log, bigLog, within(0.5, 2), 10000, 1},
		{"log1p", Log1p, func(x *big.Float) *big.Float { return bigLog(x.Add(x, float(1))) }, binades(-50, 60, false), 10000, 2},
		{"log1p below 0", Log1p, func(x *big.Float) *big.Float { return bigLog(x.Add(x, float(1))) }, within(-1, 0), 5000, 2},
		{"cos", Cos, bigCos, within(0, math.Pi), 5000, 1},
		{"cos near π/2", Cos, bigCos, within(1.57, 1.571), 5000, 1},
		{"sigmoid", Sigmoid[float64], bigSigmoid, within(-700, 40), 5000, 3},
	} {
		r, worst, at := rand.New(rand.NewPCG(5, 6)), 0.0, 0.0
		for range c.n {
			x := c.x(r)
			if e := error64(c.f(x), c.exact(float(x))); e > worst {
				worst, at = e, x
			}
		}
		t.Logf("%-24s worst %.3f ulp at %x", c.name, worst, at)
		require.Less(t, worst, c.ulps, "%s at %x", c.name, at)
		require.Greater(t, worst, 0.4, "%s: a sample of this size sees errors near half an ulp", c.name)
	}
}

// In float32, at 100,000 arguments: within 1 ulp; and over 99.99 % are the nearest value.
func TestFloat32ErrorsAreAsDocumented(t *testing.T) {
	for _, c := range []struct {
		name  string
		f     func(float32) float32
		exact func(*big.Float) *big.Float
		x     sampler
		n     int
	}{
		{"exp", ExpOf[float32], bigExp, within(-104, 88.8), 50000},
		{"exp, every binade", ExpOf[float32], bigExp, binades(-40, 7, true), 20000},
		{"log", LogOf[float32], bigLog, binades(-149, 127, false), 20000},
		{"log near 1", LogOf[float32], bigLog, within(0.5, 2), 20000},
		{"sigmoid", Sigmoid[float32], bigSigmoid, within(-104, 20), 10000},
		{"silu", SiLU[float32], func(x *big.Float) *big.Float { return x.Mul(x, bigSigmoid(x)) }, within(-100, 40), 10000},
		{"softplus", Softplus[float32], func(x *big.Float) *big.Float {
			e := bigExp(x)
			return bigLog(e.Add(e, float(1)))
		}, within(-80, 80), 10000},
	} {
		r, wrong, worst := rand.New(rand.NewPCG(1, 2)), 0, 0.0
		for range c.n {
			x := float32(c.x(r))
			if math.Abs(float64(x)) > 103.9 {
				continue
			}
			exact := c.exact(float(float64(x)))
			got := c.f(x)
			if want, _ := exact.Float32(); want != got {
				wrong++
			}
			if !math.IsInf(float64(got), 0) {
				worst = max(worst, error32(got, exact))
			}
		}
		require.Less(t, worst, 1.0, c.name)
		require.LessOrEqual(t, wrong, c.n/10000, c.name)
	}
}

// The measure itself: it sees an ulp, half of one, and one of the smallest.
func TestErrorNegativeControl(t *testing.T) {
	require.Equal(t, 1.0, error64(math.Nextafter(1, 2), float(1)))
	require.Equal(t, 0.5, error32(1, float(1+0x1p-24)))
	require.Equal(t, 1.0, error32(0x1p-148, float(0x1p-149)))
	require.Greater(t, error64(math.Exp(1)*(1+5e-16), bigExp(float(1))), 1.0)
	e, _ := bigExp(float(1)).Float64()
	require.Equal(t, math.E, e)
	l, _ := bigLog(float(2)).Float64()
	require.Equal(t, math.Ln2, l)
}

func TestCosAtItsEnds(t *testing.T) {
	require.Equal(t, 1.0, Cos(0))
	require.Equal(t, -1.0, Cos(math.Pi))
	require.Equal(t, 6.12323399573676603587e-17, Cos(math.Pi/2), "π/2 less its float64")
	require.Equal(t, 0.4999999999999999, Cos(math.Pi/3), "the float64 nearest π/3 is above it")
	for _, x := range []float64{-1e-9, math.Nextafter(math.Pi, 4), math.NaN(), math.Inf(1)} {
		require.PanicsWithValue(t, "libm: Cos is for angles from 0 to π", func() { Cos(x) })
	}
}

func TestIPow(t *testing.T) {
	for n := range 2000 {
		exact := float(1)
		for range n {
			exact.Mul(exact, float(0.95))
		}
		require.Less(t, error64(IPow(0.95, n), exact), float64(n+1), "0.95^%d", n)
	}
	require.Equal(t, 1.0, IPow(0, 0))
	require.Equal(t, -8.0, IPow(-2, 3))
	require.Equal(t, 0x1p100, IPow(2, 100))
	require.PanicsWithValue(t, "libm: IPow is for exponents from 0 up", func() { IPow(2, -1) })
}
