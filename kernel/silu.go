package kernel

import "firstbit/libm"

// SiLU is y = x·σ(x).
func SiLU[T libm.Float](y, x []T) {
	for i, v := range x[:len(y)] {
		y[i] = libm.SiLU(v)
	}
}

// SiLUBackward is dx = dy·σ(x)·(1 + x·(1 − σ(x))).
func SiLUBackward[T libm.Float](dx, dy, x []T) {
	for i, v := range x[:len(dx)] {
		dx[i] = dy[i] * siluSlope(v)
	}
}

// siluSlope is the derivative of x·σ(x).
func siluSlope[T libm.Float](x T) T {
	s := libm.Sigmoid(x)
	return s * (1 + T(x*(1-s)))
}

// GatedNorm is an RMSNorm of x·silu(z) over groups of d columns.
//
//	g = x·silu(z) ;  rstd = 1/√(Σ_d g²/d + ε), for each row and group ;  y = g·rstd·w
//
// Shapes:  x, z (rows,G·d), w (G·d) → y (rows,G·d), rstd (rows,G).
// Reduces: d, by f.
// Source:  FACTS §5; the gate comes before the norm.
func GatedNorm[T libm.Float](y, rstd, x, z, w []T, d int, eps T, f Fold) {
	g := gated(x, z)
	defer giveBack(g)
	groups := len(w) / d
	for row := range rstd {
		at := row * d
		RMSNorm(y[at:], rstd[row:][:1], (*g)[at:], w[row%groups*d:], d, eps, f)
	}
}

// gated is x·silu(z), in a slice to give back.
func gated[T libm.Float](x, z []T) *[]T {
	g := borrow[T](len(x))
	for i, v := range z[:len(x)] {
		(*g)[i] = x[i] * libm.SiLU(v)
	}
	return g
}

// GatedNormBackward is the gradients of x and z.
//
//	forward:  g = x·silu(z) ;  y = g·rstd·w
//	dg = rstd·(w·dy) − g·rstd³/d·Σ_d w·dy·g ;  dx = dg·silu(z) ;  dz = dg·x·silu′(z)
//
// Shapes:  dy, x, z (rows,G·d), w (G·d), rstd (rows,G) → dx, dz (rows,G·d).
// Reduces: d, by f.
func GatedNormBackward[T libm.Float](dx, dz, dy, x, z, w, rstd []T, d int, f Fold) {
	g := gated(x, z)
	defer giveBack(g)
	dg := borrow[T](len(x))
	defer giveBack(dg)
	groups := len(w) / d
	for row := range rstd {
		at := row * d
		RMSNormBackward((*dg)[at:], dy[at:], (*g)[at:], w[row%groups*d:], rstd[row:][:1], d, f)
	}
	for i, v := range *dg {
		dx[i] = v * libm.SiLU(z[i])
		dz[i] = T(v*x[i]) * siluSlope(z[i])
	}
}

// GatedNormWeightBackward is the gradient of w.
//
//	forward:  y = g·rstd·w, g = x·silu(z)
//	dw = Σ_rows dy·g·rstd
//
// Shapes:  dy, x, z (rows,G·d), rstd (rows,G) → dw (G·d).
// Reduces: rows, by f.
func GatedNormWeightBackward[T libm.Float](dw, dy, x, z, rstd []T, d int, f Fold) {
	g := gated(x, z)
	defer giveBack(g)
	for row, r := range rstd {
		t := (*g)[row*d:][:d]
		for j, v := range t {
			t[j] = T(dy[row*d+j]*v) * r
		}
	}
	need(f, len(x)/len(dw))
	SumRows(f, dw, *g, len(dw))
}
