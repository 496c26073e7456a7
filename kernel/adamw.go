package kernel

import (
	"math"

	"firstbit/libm"
)

// SumSquares is Σ x².
//
// Reduces: elements, by f.
func SumSquares[T libm.Float](x []T, f Fold) T { return Dot(f, x, 1, x, 1) }

// AdamWStep is the constants of one update.
type AdamWStep struct {
	LR, Beta1, Beta2, Eps, Decay float64
	Bias1, Bias2                 float64 // 1 − βᵗ
	GradScale                    float64 // the clipping coefficient
}

// AdamW updates weights w and moments m, v from gradients g, element by element.
//
//	g *= scale ;  w *= 1 − lr·decay
//	m = β1·m + (1−β1)·g ;  v = β2·v + (1−β2)·g²
//	w -= lr/bias1·m/(√v/√bias2 + ε)
//
// Source: Loshchilov & Hutter 2019, in the order of PyTorch's implementation.
func AdamW[T libm.Float](w, m, v, g []T, h AdamWStep) {
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
