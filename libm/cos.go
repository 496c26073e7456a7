package libm

import "math"

// Cos is the cosine for x in [0, π], which is what learning-rate schedules ask for, within
// 1 ulp, so that it is 0 at no float64 and −1 at math.Pi.
//
// Source: FreeBSD msun s_cos.c: cos x = sin(π/2−x) = −cos(π−x), with π in two parts and the
// difference from the first exact.
func Cos(x float64) float64 {
	const halfHi, halfLo = 1.57079632679489655800e+00, 6.12323399573676603587e-17
	switch {
	case !(x >= 0 && x <= math.Pi):
		panic("libm: Cos is for angles from 0 to π")
	case x <= math.Pi/4:
		return cosKernel(x, 0)
	case x < 3*math.Pi/4:
		return sinKernel(halfHi-x, halfLo)
	}
	return -cosKernel(2*halfHi-x, 2*halfLo)
}

// cosKernel is the cosine of x+y for |x| ≤ π/4 and a y below x's last bit.
//
// Source: FreeBSD msun k_cos.c.
func cosKernel(x, y float64) float64 {
	const (
		c1 = 4.16666666666666019037e-02
		c2 = -1.38888888888741095749e-03
		c3 = 2.48015872894767294178e-05
		c4 = -2.75573143513906633035e-07
		c5 = 2.08757232129817482790e-09
		c6 = -1.13596475577881948265e-11
	)
	z := float64(x * x)
	z2 := float64(z * z)
	r := float64(z*(c1+float64(z*(c2+float64(z*c3))))) +
		float64(float64(z2*z2)*(c4+float64(z*(c5+float64(z*c6)))))
	half := float64(0.5 * z)
	w := 1 - half
	return w + (((1 - w) - half) + (float64(z*r) - float64(x*y)))
}

// sinKernel is the sine of x+y for |x| ≤ π/4 and a y below x's last bit.
//
// Source: FreeBSD msun k_sin.c.
func sinKernel(x, y float64) float64 {
	const (
		s1 = -1.66666666666666324348e-01
		s2 = 8.33333333332248946124e-03
		s3 = -1.98412698298579493134e-04
		s4 = 2.75573137070700676789e-06
		s5 = -2.50507602534068634195e-08
		s6 = 1.58969099521155010221e-10
	)
	z := float64(x * x)
	r := s2 + float64(z*(s3+float64(z*s4))) + float64(float64(z*float64(z*z))*(s5+float64(z*s6)))
	v := float64(z * x)
	return x - ((float64(z*(float64(0.5*y)-float64(v*r))) - y) - float64(v*s1))
}
