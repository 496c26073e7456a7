package ssm

import (
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/reduce"
)

// convShape is the extents of a depthwise causal convolution: B sequences of T steps, C channels
// with K taps each, and where documents begin.
type convShape struct {
	B, T, C, K int
	documents
}

// causalConv is a depthwise convolution that sees no later step. A tap before the sequence or the document is
// absent from the sum. Where the T steps are a part of a sequence, before is the K−1 steps before them; nil: the
// sequence begins here.
//
//	y[t,c] = bias[c] + fold_k w[c,k]·x[t−K+1+k, c]
//
// Shapes:  x (B·T,C), before (B·(K−1),C), w (C,K), bias (C) → y (B·T,C).
// Reduces: K, by f.
func causalConv[T libm.Float](y, x, before, w, bias []T, s convShape, f kernel.Fold) {
	convolve(y, x, before, w, s, f, func(k int) int { return k - s.K + 1 })
	for r := range s.B * s.T {
		for c, v := range y[r*s.C:][:s.C] {
			y[r*s.C+c] = bias[c] + v
		}
	}
}

// causalConvBackward is the gradient with respect to x. Where the T steps are a part of a sequence, after is dy of the K−1
// steps that follow; nil: the sequence ends here.
//
//	forward:  y[t] = bias + Σ_k w[k]·x[t−K+1+k]
//	dx[t,c] = fold_k w[c,k]·dy[t+K−1−k, c]
//
// Shapes:  dy (B·T,C), after (B·(K−1),C), w (C,K) → dx (B·T,C).
// Reduces: K, by f.
func causalConvBackward[T libm.Float](dx, dy, after, w []T, s convShape, f kernel.Fold) {
	convolve(dx, dy, after, w, s, f, func(k int) int { return s.K - 1 - k })
}

// beyond is the row of the K−1 steps before a part of sequences, or of those after it, that step at of row r's sequence is.
func (s convShape) beyond(r, at int) int {
	if at < 0 {
		return r/s.T*(s.K-1) + s.K - 1 + at
	}
	return r/s.T*(s.K-1) + at - s.T
}

// convolve folds the taps, tap k reading the step shift(k) away; one outside x is in the halo, and absent without one, as is one of another document.
func convolve[T libm.Float](y, x, halo, w []T, s convShape, f kernel.Fold, shift func(k int) int) {
	kernel.Need(f, s.K)
	taps := kernel.Borrow[T](s.K * s.C) // (K,C)
	defer kernel.GiveBack(taps)
	for c := range s.C {
		for k := range s.K {
			(*taps)[k*s.C+c] = w[c*s.K+k]
		}
	}
	for r := range s.B * s.T {
		t := r % s.T
		kernel.RunRows(f, y[r*s.C:][:s.C], func(acc []T, step reduce.Step) {
			for i := range step.Count {
				k := f.Leaf(step.Start + i*step.Stride)
				at := t + shift(k)
				switch inside := at >= 0 && at < s.T; {
				case !inside && halo == nil, !s.together(r/s.T, t, at):
				case inside:
					addProducts(f, acc, (*taps)[k*s.C:], x[(r+shift(k))*s.C:])
				default:
					addProducts(f, acc, (*taps)[k*s.C:], halo[s.beyond(r, at)*s.C:])
				}
			}
		})
	}
}

// addProducts adds a·b to acc, element by element.
func addProducts[T libm.Float](f kernel.Fold, acc, a, b []T) {
	a, b = a[:len(acc)], b[:len(acc)]
	if kernel.Plain[T](f) {
		for j, v := range a {
			acc[j] += T(v * b[j])
		}
		return
	}
	for j, v := range a {
		acc[j] = kernel.MulAdd(f, acc[j], v, b[j])
	}
}

// causalConvWeightBackward is the gradients of the taps and the bias.
//
//	forward:  y[t] = bias + Σ_k w[k]·x[t−K+1+k]
//	dw[c,k] = fold_rows dy[t,c]·x[t−K+1+k, c] ;  dbias[c] = fold_rows dy[t,c]
//
// Shapes:  dy, x (B·T,C), before (B·(K−1),C) or nil → dw (C,K), dbias (C).
// Reduces: the B·T rows, by f. Rows whose tap lies before the sequence or the document are absent.
func causalConvWeightBackward[T libm.Float](dw, dbias, dy, x, before []T, s convShape, f kernel.Fold) {
	kernel.Need(f, s.B*s.T)
	sum := kernel.Borrow[T](s.C)
	defer kernel.GiveBack(sum)
	for k := range s.K {
		tap := weightTap[T]{s, f, dy, x, before, s.K - 1 - k}
		if f.Raced(s.C) {
			tap.race(*sum)
		} else {
			kernel.RunRows(f, *sum, func(acc []T, step reduce.Step) { tap.add(acc, step) })
		}
		for c, v := range *sum {
			dw[c*s.K+k] = v
		}
	}
	kernel.SumRows(f, dbias, dy, s.C)
}

// weightTap is the gradient of one tap, which looks so many steps back.
type weightTap[T libm.Float] struct {
	convShape
	kernel.Fold
	dy, x, before []T
	back          int
}

// add adds the rows of a chain to an accumulator.
func (w *weightTap[T]) add(acc []T, step reduce.Step) {
	for i := range step.Count {
		r := w.Leaf(step.Start + i*step.Stride)
		switch t := r % w.T; {
		case t < w.back && w.before == nil, !w.together(r/w.T, t, t-w.back):
		case t >= w.back:
			addProducts(w.Fold, acc, w.dy[r*w.C:], w.x[(r-w.back)*w.C:])
		default:
			addProducts(w.Fold, acc, w.dy[r*w.C:], w.before[w.beyond(r, t-w.back)*w.C:])
		}
	}
}

// race is the gradient by a raced fold.
func (w weightTap[T]) race(sum []T) {
	kernel.RaceRows(w.Fold, sum, func(acc []T, step reduce.Step, fresh bool) {
		if fresh {
			kernel.Fill(acc, kernel.Negzero[T]())
		}
		w.add(acc, step)
	})
}
