package libm

import (
	"math"
	"math/big"
)

// The reference: series in big.Float, far more digits than are compared.
const prec = 160

func float(x float64) *big.Float { return new(big.Float).SetPrec(prec).SetFloat64(x) }

// inverse[n] is 1/n!.
var inverse = func() []*big.Float {
	f := []*big.Float{float(1)}
	for n := 1; n < 24; n++ {
		f = append(f, new(big.Float).Quo(f[n-1], float(float64(n))))
	}
	return f
}()

// bigExp is eˣ by the Taylor series of x/2¹⁶, squared 16 times.
func bigExp(x *big.Float) *big.Float {
	const halvings = 16
	r := new(big.Float).SetPrec(prec).Set(x)
	r.SetMantExp(r, -halvings)
	sum := float(0)
	for n := len(inverse) - 1; n >= 0; n-- {
		sum.Mul(sum, r)
		sum.Add(sum, inverse[n])
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}

// bigLog is log x by one step of Halley's iteration on bigExp, which triples the 50 good bits
// it starts from: y + 2(x−eʸ)/(x+eʸ). The standard library's Log is asked about normal numbers
// only: on amd64 it is wrong by some percent for subnormal ones.
func bigLog(x *big.Float) *big.Float {
	near, _ := x.Float64()
	if near == 1 { // log(1+d) for a small d has its first bits in d
		return bigLogNearOne(x)
	}
	f, e2 := math.Frexp(near)
	y := float(math.Log(f) + float64(math.Ln2*float64(e2)))
	e := bigExp(y)
	d := new(big.Float).Sub(x, e)
	d.Quo(d, new(big.Float).Add(x, e))
	d.Mul(d, float(2))
	return d.Add(d, y)
}

// bigLogNearOne is d − d²/2 + d³/3 − d⁴/4 of d = x−1.
func bigLogNearOne(x *big.Float) *big.Float {
	d := new(big.Float).SetPrec(prec).Sub(x, float(1))
	sum := float(0)
	for n := 4; n >= 1; n-- {
		c := new(big.Float).Quo(float(1), float(float64(n)))
		sum.Sub(c, sum)
		sum.Mul(sum, d)
	}
	return sum
}

// bigCos is the cosine by its Taylor series.
func bigCos(x *big.Float) *big.Float {
	x2 := new(big.Float).Mul(x, x)
	sum, term := float(1), float(1)
	for n := 1; n < 40; n++ {
		term.Mul(term, x2)
		term.Quo(term, float(float64(2*n-1)*float64(2*n)))
		term.Neg(term)
		sum.Add(sum, term)
	}
	return sum
}

// bigSigmoid is 1/(1+e⁻ˣ).
func bigSigmoid(x *big.Float) *big.Float {
	e := bigExp(new(big.Float).Neg(x))
	return e.Quo(float(1), e.Add(e, float(1)))
}

// errorIn is |got − exact| in ulps of a format with so many significant bits, whose
// smallest positive value is 2^bottom.
func errorIn(got float64, exact *big.Float, bits, bottom int) float64 {
	if exact.Sign() == 0 {
		return math.Abs(got) / math.Ldexp(1, bottom)
	}
	d := new(big.Float).SetPrec(prec).Sub(float(got), exact)
	ulp := max(exact.MantExp(nil)-bits, bottom)
	e, _ := d.SetMantExp(d, -ulp).Float64()
	return math.Abs(e)
}

func error64(got float64, exact *big.Float) float64 { return errorIn(got, exact, 53, -1074) }

func error32(got float32, exact *big.Float) float64 { return errorIn(float64(got), exact, 24, -149) }
