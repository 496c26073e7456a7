package libm

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

const prec = 200

// bigExp is eˣ by Taylor series of x/2ᵏ, squared k times.
func bigExp(x float64) *big.Float {
	const halvings = 16
	r := new(big.Float).SetPrec(prec).SetFloat64(x)
	r.SetMantExp(r, -halvings)
	sum := big.NewFloat(1).SetPrec(prec)
	term := big.NewFloat(1).SetPrec(prec)
	for n := int64(1); n < 40; n++ {
		term.Mul(term, r)
		term.Quo(term, new(big.Float).SetPrec(prec).SetInt64(n))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}

// bigLog is log x by Newton's iteration on bigExp.
func bigLog(x float64) *big.Float {
	y := new(big.Float).SetPrec(prec).SetFloat64(math.Log(x))
	target := new(big.Float).SetPrec(prec).SetFloat64(x)
	for range 3 {
		e := bigExpBig(y)
		d := new(big.Float).SetPrec(prec).Sub(target, e)
		s := new(big.Float).SetPrec(prec).Add(target, e)
		d.Quo(d, s)
		d.Mul(d, big.NewFloat(2))
		y.Add(y, d)
	}
	return y
}

func bigExpBig(x *big.Float) *big.Float {
	const halvings = 16
	r := new(big.Float).SetPrec(prec).Set(x)
	r.SetMantExp(r, -halvings)
	sum := big.NewFloat(1).SetPrec(prec)
	term := big.NewFloat(1).SetPrec(prec)
	for n := int64(1); n < 40; n++ {
		term.Mul(term, r)
		term.Quo(term, new(big.Float).SetPrec(prec).SetInt64(n))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}

func ulps32(a, b float32) int64 {
	o := func(x float32) int64 {
		b := int64(math.Float32bits(x))
		if b >= 1<<31 {
			return 1<<31 - b
		}
		return b
	}
	d := o(a) - o(b)
	return max(d, -d)
}

func TestExpOfFloat32IsWithinOneUlp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	worst := int64(0)
	for i := range 20000 {
		x := float32(r.Float64()*200 - 110)
		if i%4 == 0 {
			x = float32(math.Ldexp(r.Float64()*2-1, r.IntN(40)-36))
		}
		want, _ := bigExp(float64(x)).Float32()
		worst = max(worst, ulps32(want, ExpOf(x)))
	}
	require.LessOrEqual(t, worst, int64(1))
	require.Greater(t, ulps32(float32(math.E), float32(math.E)*(1+3e-7)), int64(1), "the measure must see two ulps")
}

func TestLogOfFloat32IsWithinOneUlp(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	worst := int64(0)
	for i := range 4000 {
		x := math.Float32frombits(uint32(r.IntN(0x7f7fffff)) + 1) // every binade, subnormals too
		if i%2 == 0 {
			x = float32(0.5 + r.Float64())
		}
		want, _ := bigLog(float64(x)).Float32()
		worst = max(worst, ulps32(want, LogOf(x)))
	}
	require.LessOrEqual(t, worst, int64(1))
}

func TestFloat64IsWithinTwoUlps(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		x := r.Float64()*1400 - 700
		want, _ := bigExp(x).Float64()
		require.InEpsilon(t, want, Exp(x), 3e-16, "exp %g", x)
		y := math.Ldexp(r.Float64()+1e-9, r.IntN(200)-100)
		want, _ = bigLog(y).Float64()
		require.InDelta(t, want, Log(y), 3e-16*max(1, math.Abs(want)), "log %g", y)
	}
}

func TestSpecials(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct{ x, exp float64 }{
		{0, 1}, {math.Copysign(0, -1), 1}, {inf, inf}, {-inf, 0}, {710, inf}, {-746, 0}, {1e-300, 1}, {-745, 5e-324},
	} {
		require.Equal(t, c.exp, Exp(c.x), "exp %g", c.x)
	}
	require.True(t, math.IsNaN(Exp(math.NaN())) && math.IsNaN(Log(-1)) && math.IsNaN(Log(math.NaN())))
	require.Equal(t, -inf, Log(0))
	require.Equal(t, inf, Log(inf))
	require.Equal(t, 0.0, Log(1))
	require.Equal(t, float32(1), Sigmoid(float32(200)))
	require.Equal(t, float32(0.5), Sigmoid(float32(0)))
	require.Zero(t, Sigmoid(float32(-200)))
	require.InDelta(t, -1, Cos(math.Pi), 1e-15)
	require.InDelta(t, 0, Cos(math.Pi/2), 1e-15)
	require.Equal(t, 1.0, Cos(0))
	require.InDelta(t, math.Pow(0.95, 137), IPow(0.95, 137), 1e-15)
}

// The bits every architecture must produce: an XOR-rotate over 100,000 outputs.
func TestGoldenBits(t *testing.T) {
	h := uint64(0)
	for i := range 100000 {
		x := float64(i)*0.00517 - 250
		h = h<<7 ^ h>>57 ^ math.Float64bits(Exp(x)) ^ math.Float64bits(Log(x+251))<<1 ^ math.Float64bits(Sigmoid(x))
	}
	require.Equal(t, uint64(0xe36694a4eafe7d56), h)
}

func BenchmarkExp(b *testing.B) {
	x, s := -20.0, 0.0
	for range b.N {
		s += Exp(x)
		x += 1e-6
	}
	sink = s
}

var sink float64
