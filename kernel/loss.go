package kernel

import "firstbit/libm"

// CrossEntropy is each row's −log softmax at its target.
//
//	lse_i = m + log Σ_v exp(x_iv − m), m the row's largest ;  loss_i = lse_i − x_i[target]
//
// Shapes:  logits (rows,V), targets (rows) → loss, lse (rows). A target of −1 is left out: loss 0.
// Units:   nats.
// Reduces: V, by f.
func CrossEntropy[T libm.Float](loss, lse, logits []T, targets []int32, v int, f Fold) {
	need(f, v)
	e := borrow[T](v)
	defer giveBack(e)
	for i, target := range targets {
		row := logits[i*v:][:v]
		lse[i] = logSumExp(*e, row, f)
		loss[i] = 0
		if target >= 0 {
			loss[i] = lse[i] - row[target]
		}
	}
}

// logSumExp is m + log Σ exp(x − m); e takes the exponentials.
func logSumExp[T libm.Float](e, x []T, f Fold) T {
	m := largest(x)
	expLess(e, x, m)
	return m + libm.LogOf(Sum(f, e, 1))
}

// expLess is e = exp(x − m); they may be the same slice.
func expLess[T libm.Float](e, x []T, m T) {
	e = e[:len(x)]
	for j, v := range x {
		e[j] = v - m
	}
	libm.ExpSlice(e, e)
}

func largest[T libm.Float](x []T) T {
	m := x[0]
	for _, v := range x[1:] {
		m = max(m, v)
	}
	return m
}

// CrossEntropyBackward is dlogits = scale·(exp(x − lse) − [v = target]); 0 where the target is −1.
//
// Shapes: logits (rows,V), lse, targets (rows) → dlogits (rows,V).
func CrossEntropyBackward[T libm.Float](dlogits, logits, lse []T, targets []int32, v int, scale T) {
	for i, target := range targets {
		row, d := logits[i*v:][:v], dlogits[i*v:][:v]
		if target < 0 {
			clear(d)
			continue
		}
		expLess(d, row, lse[i])
		for j := range d {
			d[j] *= scale
		}
		d[target] = (libm.ExpOf(row[target]-lse[i]) - 1) * scale
	}
}
