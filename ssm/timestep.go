package ssm

import (
	"firstbit/kernel"
	"firstbit/libm"
)

// timeStep makes a state-space head's step size and the logarithm of its decay.
//
//	dt = max(softplus(raw + bias), least) ;  la = dt·A, A = −exp(a_log)
//
// Shapes:  raw (rows,H), bias, aLog (H) → dt, la (rows,H).
// Source:  docs/facts.md, Model; least is Hugging Face's time_step_min, 0 elsewhere.
func timeStep[T libm.Float](dt, la, raw, bias, aLog []T, least T) {
	heads := len(bias)
	for h := range heads {
		a := -libm.ExpOf(aLog[h])
		for i := h; i < len(raw); i += heads {
			dt[i] = max(libm.Softplus(raw[i]+bias[h]), least)
			la[i] = dt[i] * a
		}
	}
}

// timeStepBackward is the gradient of raw; that of bias is its sum over rows.
//
//	forward:  dt = max(softplus(raw + bias), least) ;  la = dt·A
//	draw = (ddt + dla·A)·σ(raw + bias), zero where the bound holds
//
// Shapes:  ddt, dla, raw (rows,H), bias, aLog (H) → draw (rows,H).
func timeStepBackward[T libm.Float](draw, ddt, dla, raw, bias, aLog []T, least T) {
	heads := len(bias)
	for h := range heads {
		a := -libm.ExpOf(aLog[h])
		for i := h; i < len(raw); i += heads {
			x := raw[i] + bias[h]
			draw[i] = 0
			if libm.Softplus(x) >= least {
				draw[i] = (ddt[i] + T(dla[i]*a)) * libm.Sigmoid(x)
			}
		}
	}
}

// decayBackward is the gradient of a_log.
//
//	forward:  la = −exp(a_log)·dt
//	da_log = −exp(a_log)·fold_rows dla·dt
//
// Shapes:  dla, dt (rows,H), aLog (H) → da (H).
// Reduces: rows, by f.
func decayBackward[T libm.Float](da, dla, dt, aLog []T, f kernel.Fold) {
	heads := len(aLog)
	kernel.Need(f, len(dt)/heads)
	for h := range heads {
		da[h] = -libm.ExpOf(aLog[h]) * kernel.Dot(f, dla[h:], heads, dt[h:], heads)
	}
}

// decayBackwardByToken is decayBackward with the factor in every row's term: the gradients of two halves add up to
// that of the whole.
//
//	da_log = fold_rows −exp(a_log)·(dla·dt)
//
// Shapes:  dla, dt (rows,H), aLog (H) → da (H).
// Reduces: rows, by f.
func decayBackwardByToken[T libm.Float](da, dla, dt, aLog []T, f kernel.Fold) {
	heads := len(aLog)
	kernel.Need(f, len(dt)/heads)
	terms := kernel.Borrow[T](len(dt))
	defer kernel.GiveBack(terms)
	for i := range *terms {
		(*terms)[i] = T(dla[i]*dt[i]) * -libm.ExpOf(aLog[i%heads])
	}
	kernel.SumRows(f, da, *terms, heads)
}

// skipBackward is the gradient of D.
//
//	forward:  y[row,h,p] = … + D[h]·x[row,h,p]
//	dD[h] = fold_rows fold_p dy·x
//
// Shapes:  dy, x (rows,H·P) → dd (H).
// Reduces: P, by p, then rows, by f.
func skipBackward[T libm.Float](dd, dy, x []T, p, f kernel.Fold) {
	width, heads := p.N, len(dd)
	terms := kernel.Borrow[T](len(x) / width) // (rows,H)
	defer kernel.GiveBack(terms)
	for i := range *terms {
		(*terms)[i] = kernel.Dot(p, dy[i*width:], 1, x[i*width:], 1)
	}
	kernel.Need(f, len(*terms)/heads)
	kernel.SumRows(f, dd, *terms, heads)
}
