package nn

import (
	"math"

	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/reduce"
)

// RMSNorm normalises rows by their root mean square.
//
//	rstd_i = 1/√(Σ_d x²/D + ε) ;  y = x·rstd·w
//
// Shapes:  x (rows,D), w (D) → y (rows,D), rstd (rows).
// Reduces: D, by f.
func RMSNorm[T libm.Float](y, rstd, x, w []T, d int, eps T, f kernel.Fold) {
	kernel.Need(f, d)
	for i := range rstd {
		xi, yi := x[i*d:][:d], y[i*d:][:d]
		r := 1 / T(math.Sqrt(float64(kernel.Dot(f, xi, 1, xi, 1)/T(d)+eps)))
		rstd[i] = r
		for j, v := range xi {
			yi[j] = T(T(v*r) * w[j])
		}
	}
}

// RMSNormBackward is the gradient with respect to x.
//
//	forward:  y = x·rstd·w
//	dx = rstd·(w·dy) − x·rstd³/D·Σ_d w·dy·x
//
// Shapes:  dy, x (rows,D), w (D), rstd (rows) → dx (rows,D).
// Reduces: D, by f.
func RMSNormBackward[T libm.Float](dx, dy, x, w, rstd []T, d int, f kernel.Fold) {
	kernel.Need(f, d)
	g := kernel.Borrow[T](d)
	defer kernel.GiveBack(g)
	for i, r := range rstd {
		xi, dyi, dxi := x[i*d:][:d], dy[i*d:][:d], dx[i*d:][:d]
		for j, v := range dyi {
			(*g)[j] = w[j] * v
		}
		c := T(T(T(r*r)*r)*kernel.Dot(f, *g, 1, xi, 1)) / T(d)
		for j, v := range *g {
			dxi[j] = T(r*v) - T(xi[j]*c)
		}
	}
}

// RMSNormWeightBackward is the gradient with respect to w.
//
//	dw_d = Σ_rows dy·x·rstd
//
// Shapes:  dy, x (rows,D), rstd (rows) → dw (D).
// Reduces: rows, by f.
func RMSNormWeightBackward[T libm.Float](dw, dy, x, rstd []T, d int, f kernel.Fold) {
	kernel.Need(f, len(rstd))
	if f.Raced(d) {
		raceNormWeight(dw, dy, x, rstd, d, f)
		return
	}
	terms := kernel.Borrow[T](len(x))
	defer kernel.GiveBack(terms)
	for i, r := range rstd {
		row := (*terms)[i*d:][:d]
		for j := range row {
			row[j] = T(T(dy[i*d+j]*x[i*d+j]) * r)
		}
	}
	kernel.SumRows(f, dw, *terms, d)
}

// raceNormWeight is RMSNormWeightBackward by a raced fold.
func raceNormWeight[T libm.Float](dw, dy, x, rstd []T, d int, f kernel.Fold) {
	kernel.RaceRows(f, dw, func(acc []T, s reduce.Step, fresh bool) {
		if fresh {
			kernel.Fill(acc, kernel.Negzero[T]())
		}
		for c := range s.Count {
			i := f.Leaf(s.Start + c*s.Stride)
			r, dyi, xi := rstd[i], dy[i*d:][:len(acc)], x[i*d:][:len(acc)]
			for j := range acc {
				acc[j] += T(T(dyi[j]*xi[j]) * r)
			}
		}
	})
}
