// Package libm is the elementary functions, with the same bits on every architecture.
//
// The standard library's Exp and Log are assembly on some processors and differ in the
// last bit. These are plain Go, every product that meets a sum rounded first. Of the
// standard library they use what is exact everywhere: Abs, Copysign, Frexp, the bits.
// Where slices are computed in vector registers, each lane takes the same steps.
package libm

import "math"

// Float is the widths kernels are written for.
type Float interface{ ~float32 | ~float64 }

const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
	log2e = 1.44269504088896338700e+00

	// tiny is where eˣ is 1+x rounded.
	tiny = 1.0 / (1 << 28)

	// The polynomial of expKernel.
	exp1 = 1.66666666666666657415e-01
	exp2 = -2.77777777770155933842e-03
	exp3 = 6.61375632143793436117e-05
	exp4 = -1.65339022054652515390e-06
	exp5 = 4.13813679705723846039e-08
)

// Exp is eˣ, within 1 ulp: subnormal below −708.39, 0 below −745.13, ∞ above 709.78.
//
// Source: FreeBSD msun e_exp.c: x = k·ln2 + r, |r| ≤ ln2/2, eʳ by a rational
// function of r², scaled by 2ᵏ.
func Exp(x float64) float64 {
	switch {
	case math.IsNaN(x):
		return x
	case x > 7.09782712893383973096e+02:
		return math.Inf(1)
	case x < -7.45133219101941108420e+02:
		return 0
	case -tiny < x && x < tiny:
		return 1 + x
	}
	k := int(float64(log2e*x) + math.Copysign(0.5, x)) // fits: below 1076; the conversion truncates
	hi := x - float64(float64(k)*ln2Hi)
	lo := float64(float64(k) * ln2Lo)
	return scale(expKernel(hi, lo), k)
}

// expKernel is e^(hi−lo) for |hi−lo| ≤ ln2/2.
func expKernel(hi, lo float64) float64 {
	r := hi - lo
	t := float64(r * r)
	c := r - float64(t*(exp1+float64(t*(exp2+float64(t*(exp3+float64(t*(exp4+float64(t*exp5)))))))))
	return 1 - ((lo - float64(r*c)/(2-c)) - hi)
}

// scale is y·2ᵏ for y in [0.5, 2]; subnormal results are rounded once.
func scale(y float64, k int) float64 {
	switch {
	case k > 1023:
		return float64(float64(y*2) * math.Float64frombits(uint64(k-1+1023)<<52))
	case k > -1022:
		return float64(y * math.Float64frombits(uint64(k+1023)<<52))
	}
	return float64(float64(y*math.Float64frombits(uint64(k+64+1023)<<52)) * 0x1p-64)
}

// Log is the natural logarithm, within 1 ulp: −∞ at ±0, NaN below.
//
// Source: FreeBSD msun e_log.c: x = 2ᵏ·(1+f), log(1+f) by s = f/(2+f) and a
// polynomial in s².
func Log(x float64) float64 {
	const (
		l1 = 6.666666666666735130e-01
		l2 = 3.999999999940941908e-01
		l3 = 2.857142874366239149e-01
		l4 = 2.222219843214978396e-01
		l5 = 1.818357216161805012e-01
		l6 = 1.531383769920937332e-01
		l7 = 1.479819860511658591e-01
	)
	switch {
	case math.IsNaN(x) || math.IsInf(x, 1):
		return x
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	}
	f, e := math.Frexp(x)
	if f < math.Sqrt2/2 {
		f = float64(f * 2)
		e--
	}
	f--
	k := float64(e)
	s := f / (2 + f)
	s2 := float64(s * s)
	s4 := float64(s2 * s2)
	t1 := float64(s2 * (l1 + float64(s4*(l3+float64(s4*(l5+float64(s4*l7)))))))
	t2 := float64(s4 * (l2 + float64(s4*(l4+float64(s4*l6)))))
	r := t1 + t2
	half := float64(float64(0.5*f) * f)
	return float64(k*ln2Hi) - ((half - (float64(s*(half+r)) + float64(k*ln2Lo))) - f)
}

// Log1p is log(1+x) for x ≥ −1, within 2 ulp, also where 1+x has lost x.
//
// Source: the correction of HP's calculators, as in FreeBSD msun s_log1p.c: with
// u = 1+x rounded, log(1+x) = log u + (x−(u−1))/u.
func Log1p(x float64) float64 {
	u := 1 + x
	switch {
	case u == 1: // x and its sign
		return x
	case u == 0 || !(math.Abs(x) < 0x1p53): // −∞, NaN, or 1 is lost in x and its error with it
		return Log(u)
	}
	return Log(u) + (x-(u-1))/u
}

// IPow is xⁿ for n ≥ 0 by squaring: at most 2·log₂n products, each rounded.
func IPow(x float64, n int) float64 {
	if n < 0 {
		panic("libm: IPow is for exponents from 0 up")
	}
	y := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			y = float64(y * x)
		}
		x = float64(x * x)
	}
	return y
}
