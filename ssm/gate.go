package ssm

import (
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/nn"
)

// silu is y = x·σ(x).
func silu[T libm.Float](y, x []T) {
	libm.SiLUSlice(y, x[:len(y)])
}

// siluBackward is dx = dy·σ(x)·(1 + x·(1 − σ(x))).
func siluBackward[T libm.Float](dx, dy, x []T) {
	s := sigmoids(x[:len(dx)])
	defer kernel.GiveBack(s)
	for i, sigma := range *s {
		dx[i] = dy[i] * siluSlope(x[i], sigma)
	}
}

// siluSlope is the derivative of x·σ(x).
func siluSlope[T libm.Float](x, sigma T) T { return sigma * (1 + T(x*(1-sigma))) }

// sigmoids is σ(x), in a slice to give back.
func sigmoids[T libm.Float](x []T) *[]T {
	s := kernel.Borrow[T](len(x))
	libm.SigmoidSlice(*s, x)
	return s
}

// gatedNorm is an RMSNorm of x·silu(z) over groups of d columns.
//
//	g = x·silu(z) ;  rstd = 1/√(Σ_d g²/d + ε), for each row and group ;  y = g·rstd·w
//
// Shapes:  x, z (rows,G·d), w (G·d) → y (rows,G·d), rstd (rows,G).
// Reduces: d, by f.
// Source:  docs/facts.md, Model; the gate comes before the norm.
func gatedNorm[T libm.Float](y, rstd, x, z, w []T, d int, eps T, f kernel.Fold) {
	g := gated(x, z)
	defer kernel.GiveBack(g)
	groups := len(w) / d
	for row := range rstd {
		at := row * d
		nn.RMSNorm(y[at:], rstd[row:][:1], (*g)[at:], w[row%groups*d:], d, eps, f)
	}
}

// gated is x·silu(z), in a slice to give back.
func gated[T libm.Float](x, z []T) *[]T {
	g := kernel.Borrow[T](len(x))
	libm.SiLUSlice(*g, z[:len(x)])
	for i, v := range *g {
		(*g)[i] = x[i] * v
	}
	return g
}

// gatedNormBackward is the gradients of x and z.
//
//	forward:  g = x·silu(z) ;  y = g·rstd·w
//	dg = rstd·(w·dy) − g·rstd³/d·Σ_d w·dy·g ;  dx = dg·silu(z) ;  dz = dg·x·silu′(z)
//
// Shapes:  dy, x, z (rows,G·d), w (G·d), rstd (rows,G) → dx, dz (rows,G·d).
// Reduces: d, by f.
func gatedNormBackward[T libm.Float](dx, dz, dy, x, z, w, rstd []T, d int, f kernel.Fold) {
	g := gated(x, z)
	defer kernel.GiveBack(g)
	dg := kernel.Borrow[T](len(x))
	defer kernel.GiveBack(dg)
	groups := len(w) / d
	for row := range rstd {
		at := row * d
		nn.RMSNormBackward((*dg)[at:], dy[at:], (*g)[at:], w[row%groups*d:], rstd[row:][:1], d, f)
	}
	s := sigmoids(z[:len(x)])
	defer kernel.GiveBack(s)
	libm.SiLUSlice(*g, z[:len(x)]) // g itself is done with
	for i, v := range *dg {
		dx[i] = v * (*g)[i]
		dz[i] = T(v*x[i]) * siluSlope(z[i], (*s)[i])
	}
}

// gatedNormWeightBackward is the gradient of w.
//
//	forward:  y = g·rstd·w, g = x·silu(z)
//	dw = Σ_rows dy·g·rstd
//
// Shapes:  dy, x, z (rows,G·d), rstd (rows,G) → dw (G·d).
// Reduces: rows, by f.
func gatedNormWeightBackward[T libm.Float](dw, dy, x, z, rstd []T, d int, f kernel.Fold) {
	g := gated(x, z)
	defer kernel.GiveBack(g)
	for row, r := range rstd {
		t := (*g)[row*d:][:d]
		for j, v := range t {
			t[j] = T(dy[row*d+j]*v) * r
		}
	}
	kernel.Need(f, len(x)/len(dw))
	kernel.SumRows(f, dw, *g, len(dw))
}
