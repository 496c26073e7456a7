package moe

import (
	"firstbit/kernel"
	"firstbit/libm"
)

// gatherRows is y[r] = x[order[r]/k]: a token's row for each slot it chose.
func gatherRows[T libm.Float](y, x []T, order []int32, k, d int) {
	for r, slot := range order {
		copy(y[r*d:][:d], x[int(slot)/k*d:][:d])
	}
}

// combineSlots is y[t] = fold over slots s of x[inverse[t·k+s]].
//
// Shapes:  x (T·k,d) → y (T,d).
// Reduces: slots, by f.
func combineSlots[T libm.Float](y, x []T, inverse []int32, k, d int, f kernel.Fold) {
	kernel.Need(f, k)
	for t := range len(inverse) / k {
		kernel.SumRowsAt(f, y[t*d:][:d], x, d, inverse[t*k:][:k])
	}
}

// combineScatter is combineSlots as threads do it that share the rows, slot by slot.
func combineScatter[T libm.Float](y, x []T, inverse []int32, k, d int, way kernel.Race) {
	t := len(inverse) / k
	kernel.RaceScatter(way, y, d, len(inverse), func(i int) int { return i % t }, func(i int) []T { return x[int(inverse[i%t*k+i/t])*d:][:d] })
}

// sumRuns adds whole numbers run by run: sums[i] is the sum of run i of x.
//
// Shapes: x (n·r) → sums (n).
// Reduces: r, in which order is nothing.
func sumRuns(sums, x []int32) {
	each := len(x) / len(sums)
	for i := range sums {
		sums[i] = 0
		for _, v := range x[i*each:][:each] {
			sums[i] += v
		}
	}
}

// sortChunks sorts rows that several ranks sent by expert, then by rank, then as they came. Each rank sent its rows by
// expert. Of a rank's parts each received from as many ranks; rank s·parts+j is the s-th that sent to part j.
//
// Shapes: counts (parts·senders,E), the rows of each chunk → order (R), inverse (parts·most), bounds (E·n+1). Part j has its
// rows from j·most on. Sorted row r is received row order[r]; inverse is −1 where a part has no row. Of every expert,
// bounds cuts the rows into those of n equal runs of ranks.
// Source: Megatron Core's sort of chunks behind an all-to-all.
func sortChunks(order, inverse, bounds, counts []int32, e, parts, most int) {
	ranks, n := len(counts)/e, (len(bounds)-1)/e
	starts := make([]int, len(counts)) // of each chunk as received
	for j := range parts {
		at := j * most
		for i := j * len(counts) / parts; i < (j+1)*len(counts)/parts; i++ {
			starts[i] = at
			at += int(counts[i])
		}
	}
	for i := range inverse {
		inverse[i] = -1
	}
	r := 0
	for expert := range e {
		for rank := range ranks {
			if run := ranks / n; rank%run == 0 {
				bounds[expert*n+rank/run] = int32(r)
			}
			chunk := (rank%parts*(ranks/parts)+rank/parts)*e + expert
			for i := range int(counts[chunk]) {
				order[r], inverse[starts[chunk]+i] = int32(starts[chunk]+i), int32(r)
				r++
			}
		}
	}
	bounds[e*n] = int32(r)
}

// placeRows is y[r] = x[order[r]], row by row, 0 where order is −1.
func placeRows[T any](y, x []T, order []int32) {
	if len(order) == 0 {
		return
	}
	d := len(y) / len(order)
	for r, from := range order {
		if from < 0 {
			clear(y[r*d:][:d])
			continue
		}
		copy(y[r*d:][:d], x[int(from)*d:][:d])
	}
}

// scale is y = s·x.
func scale[T libm.Float](y, x []T, s T) {
	for i, v := range x[:len(y)] {
		y[i] = v * s
	}
}

// mulRows is y = x with row r multiplied by p[r]. Shapes: x (rows,d), p (rows).
func mulRows[T libm.Float](y, x, p []T, d int) {
	for r, s := range p {
		scale(y[r*d:][:d], x[r*d:][:d], s)
	}
}

// reluProbBackward is the gradient of a = p·relu²(h).
//
//	forward:  a[r,n] = p[r]·max(h[r,n],0)²
//	dh[r,n] = da[r,n]·p[r]·2·max(h[r,n],0)
//	dp[r]   = Σ_n max(h[r,n],0)²·da[r,n]
//
// Shapes:  da, h, dh (R,F), p, dp (R).
// Reduces: the columns F, by f.
func reluProbBackward[T libm.Float](dh, dp, da, h, p []T, f kernel.Fold) {
	terms := kernel.Borrow[T](f.N)
	defer kernel.GiveBack(terms)
	for r, weight := range p {
		hr, dar, dhr := h[r*f.N:][:f.N], da[r*f.N:][:f.N], dh[r*f.N:][:f.N]
		for i, v := range hr {
			v = max(v, 0)
			(*terms)[i] = T(T(v*v) * dar[i])
			dhr[i] = T(T(dar[i]*weight) * T(2*v))
		}
		dp[r] = kernel.Sum(f, *terms, 1)
	}
}
