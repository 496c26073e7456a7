package libm

import "math"

// The functions of this file are computed in float64 and rounded once to the width of T.
// In float32 they are within one ulp, and nearly always the nearest value.

// ExpOf is eˣ at the width of T.
func ExpOf[T Float](x T) T { return T(Exp(float64(x))) }

// LogOf is the natural logarithm at the width of T.
func LogOf[T Float](x T) T { return T(Log(float64(x))) }

// Sigmoid is 1/(1+e⁻ˣ) at the width of T. The exponential is taken of −|x|, so that neither
// side overflows.
func Sigmoid[T Float](x T) T { return T(sigmoid(float64(x))) }

func sigmoid(x float64) float64 {
	if x >= 0 {
		return 1 / (1 + Exp(-x))
	}
	e := Exp(x)
	return e / (1 + e)
}

// SiLU is x/(1+e⁻ˣ) at the width of T. Its limit at −∞ is −0.
func SiLU[T Float](x T) T {
	if math.IsInf(float64(x), -1) { // ∞·0 otherwise
		return T(math.Copysign(0, -1))
	}
	return T(float64(x) * sigmoid(float64(x)))
}

// Softplus is log(1+eˣ) = max(x, 0) + log(1+e⁻ˡˣˡ) at the width of T: no overflow on the
// right, and not 0 on the left before T underflows.
func Softplus[T Float](x T) T {
	v := float64(x)
	return T(max(v, 0) + Log1p(Exp(-math.Abs(v))))
}
