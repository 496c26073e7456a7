package model

import (
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/nn"
)

// crossEntropy is each row's −log softmax at its target.
//
//	lse_i = m + log Σ_v exp(x_iv − m), m the row's largest ;  loss_i = lse_i − x_i[target]
//
// Shapes:  logits (rows,V), targets (rows) → loss, lse (rows). A target of −1 is left out: loss 0.
// Units:   nats.
// Reduces: V, by f.
func crossEntropy[T libm.Float](loss, lse, logits []T, targets []int32, v int, f kernel.Fold) {
	var m, sum, target [1]T
	for i := range targets {
		row, id := logits[i*v:][:v], targets[i:i+1]
		rowMax(m[:], row, v)
		crossEntropyPart(sum[:], target[:], row, m[:], id, v, 0, f)
		crossEntropyJoin(loss[i:i+1], lse[i:i+1], m[:], sum[:], target[:], id)
	}
}

// crossEntropyByTile is crossEntropy as fused kernels have it, which never see a whole row: each tile of the vocabulary takes its own largest,
// and what it comes to is brought to the row's when it is joined.
//
//	s_t = Σ_{v in t} exp(x_iv − m_t) ;  lse_i = m + log Σ_t s_t·exp(m_t − m)
//
// Shapes:  as crossEntropy.
// Reduces: V, inside a tile by its fold, over tiles by join.
// Source:  Milakov & Gimelshein 2018, Online normalizer calculation for softmax, section 3.1.
func crossEntropyByTile[T libm.Float](loss, lse, logits []T, targets []int32, v int, tiles []kernel.Tile, join kernel.Fold) {
	var m, sum, target [1]T
	most, sums, e := make([]T, len(tiles)), make([]T, len(tiles)), make([]T, v)
	for i, id := range targets {
		row := logits[i*v:][:v]
		for t, tile := range tiles {
			part := e[:tile.N]
			for j := range part {
				part[j] = row[tile.Start+j*tile.Stride]
			}
			sums[t] = kernel.Negzero[T]()
			if tile.N > 0 {
				most[t] = nn.Largest(part)
				nn.ExpLess(part, part, most[t])
				sums[t] = kernel.Sum(tile.Fold, part, 1)
			}
		}
		rowMax(m[:], row, v)
		sum[0] = kernel.Run(join, func(t int) T { return T(sums[t] * libm.ExpOf(most[t]-m[0])) })
		target[0] = row[max(id, 0)]
		crossEntropyJoin(loss[i:i+1], lse[i:i+1], m[:], sum[:], target[:], targets[i:i+1])
	}
}

// rowMax is the largest of each row.
//
// Shapes: x (rows,V) → y (rows).
func rowMax[T libm.Float](y, x []T, v int) {
	for i := range y {
		y[i] = nn.Largest(x[i*v:][:v])
	}
}

// crossEntropyPart is what a run of the vocabulary, from first on, has of crossEntropy: the sum of its exponentials, and the target's
// logit, absent (−0) where that lies elsewhere. Sums over all runs and m over all are for crossEntropyJoin.
//
// Shapes:  logits (rows,V), m, targets (rows) → sum, target (rows). V is the run's.
// Reduces: V, by f.
func crossEntropyPart[T libm.Float](sum, target, logits, m []T, targets []int32, v, first int, f kernel.Fold) {
	kernel.Need(f, v)
	e := kernel.Borrow[T](v)
	defer kernel.GiveBack(e)
	for i, id := range targets {
		row := logits[i*v:][:v]
		nn.ExpLess(*e, row, m[i])
		sum[i] = kernel.Sum(f, *e, 1)
		target[i] = kernel.Negzero[T]()
		if at := int(id) - first; at >= 0 && at < v && id >= 0 {
			target[i] = row[at]
		}
	}
}

// crossEntropyJoin is crossEntropy from what all runs have.
//
//	lse_i = m_i + log sum_i ;  loss_i = lse_i − target_i
//
// Shapes: m, sum, target, targets (rows) → loss, lse (rows). A target of −1 is left out: loss 0.
// Units:  nats.
func crossEntropyJoin[T libm.Float](loss, lse, m, sum, target []T, targets []int32) {
	for i, id := range targets {
		lse[i] = m[i] + libm.LogOf(sum[i])
		loss[i] = 0
		if id >= 0 {
			loss[i] = lse[i] - target[i]
		}
	}
}

// crossEntropyBackward is dlogits = scale·(exp(x − lse) − [v = target]); 0 where the target is −1. The logits may be a run
// of the vocabulary from first on.
//
// Shapes: logits (rows,V), lse, targets (rows) → dlogits (rows,V). V is the run's.
func crossEntropyBackward[T libm.Float](dlogits, logits, lse []T, targets []int32, v, first int, scale T) {
	for i, target := range targets {
		row, d := logits[i*v:][:v], dlogits[i*v:][:v]
		if target < 0 {
			clear(d)
			continue
		}
		nn.ExpLess(d, row, lse[i])
		for j := range d {
			d[j] *= scale
		}
		if at := int(target) - first; at >= 0 && at < v {
			d[at] = (libm.ExpOf(row[at]-lse[i]) - 1) * scale
		}
	}
}
