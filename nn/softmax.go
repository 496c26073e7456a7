package nn

import (
	"firstbit/kernel"
	"firstbit/libm"
)

// LogSumExp is m + log Σ exp(x − m); e takes the exponentials.
func LogSumExp[T libm.Float](e, x []T, f kernel.Fold) T {
	m := Largest(x)
	ExpLess(e, x, m)
	return m + libm.LogOf(kernel.Sum(f, e, 1))
}

// ExpLess is e = exp(x − m); they may be the same slice.
func ExpLess[T libm.Float](e, x []T, m T) {
	e = e[:len(x)]
	for j, v := range x {
		e[j] = v - m
	}
	libm.ExpSlice(e, e)
}

// Largest is the largest element.
func Largest[T libm.Float](x []T) T {
	m := x[0]
	for _, v := range x[1:] {
		m = max(m, v)
	}
	return m
}
