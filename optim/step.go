package optim

import (
	"math"

	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/reduce"
)

// sumSquares is Σ x².
//
// Reduces: elements, by f.
func sumSquares[T libm.Float](x []T, f kernel.Fold) T {
	kernel.Need(f, len(x))
	if !kernel.Plain[T](f) || !f.Lanes(lanes) {
		return kernel.Dot(f, x, 1, x, 1)
	}
	partial := squareLanes(x)
	return kernel.JoinLanes(f, &partial)
}

// lanes is the number of strided accumulators SumSquares keeps at once: the order of the
// gradient norm, whose additions would wait for one another in any one lane.
const lanes = reduce.Lanes

// squareLanes is the sum of squares of each lane, in sequence.
func squareLanes[T libm.Float](x []T) [lanes]T {
	z := kernel.Negzero[T]()
	a, b, c, d, e, f, g, h := z, z, z, z, z, z, z, z
	for ; len(x) >= lanes; x = x[lanes:] {
		a += T(x[0] * x[0])
		b += T(x[1] * x[1])
		c += T(x[2] * x[2])
		d += T(x[3] * x[3])
		e += T(x[4] * x[4])
		f += T(x[5] * x[5])
		g += T(x[6] * x[6])
		h += T(x[7] * x[7])
	}
	sums := [lanes]T{a, b, c, d, e, f, g, h}
	for i, v := range x {
		sums[i] += T(v * v)
	}
	return sums
}

// adamWStep is the constants of one update.
type adamWStep struct {
	LR, Beta1, Beta2, Eps, Decay float64
	Bias1, Bias2                 float64 // 1 − βᵗ
	GradScale                    float64 // the clipping coefficient
}

// updateAdamW updates weights w and moments m, v from gradients g, element by element.
//
//	g *= scale ;  w *= 1 − lr·decay
//	m = β1·m + (1−β1)·g ;  v = β2·v + (1−β2)·g²
//	w -= lr/bias1·m/(√v/√bias2 + ε)
//
// Source: Loshchilov & Hutter 2019, with the decay first, as in PyTorch; the operations' order is ours.
func updateAdamW[T libm.Float](w, m, v, g []T, h adamWStep) {
	b1, c1, b2, c2 := T(h.Beta1), T(1-h.Beta1), T(h.Beta2), T(1-h.Beta2)
	keep, step := T(1-float64(h.LR*h.Decay)), T(h.LR/h.Bias1)
	root, eps, scale := T(math.Sqrt(h.Bias2)), T(h.Eps), T(h.GradScale)
	m, v, g = m[:len(w)], v[:len(w)], g[:len(w)]
	for i := range w {
		gi := T(g[i] * scale)
		mi := T(b1*m[i]) + T(c1*gi)
		vi := T(b2*v[i]) + T(c2*T(gi*gi))
		m[i], v[i] = mi, vi
		denom := T(math.Sqrt(float64(vi)))/root + eps
		w[i] = T(w[i]*keep) - T(step*(mi/denom))
	}
}
