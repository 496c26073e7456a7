package moe

import (
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/nn"
)

// auxLoss is the fused load-balancing loss: grid CTAs share the positions, and each adds what it
// has to the total. It is the mean over B sequences of S positions; as one sequence it is the
// loss of a whole microbatch.
//
//	loss = Σ_c C·Σ_b,i n_bi·Σ_{t ≡ c mod grid} P_bti / B
//
// Shapes:  share P (B·S,E), counts n (B,E).
// Reduces: CTA c its positions c, c+grid, … by rows; a CTA's columns, the B·E experts of all
// sequences, by experts; CTAs by ctas, a fold over min(grid, S).
// Source:  docs/facts.md, Model and Kernels; Megatron Core's fused auxiliary loss, which lays sequences side by side.
func auxLoss[T libm.Float](share []T, counts []int32, e, grid int, c T, rows func(n int) kernel.Fold, experts, ctas kernel.Fold, probe func(cta int, partial T)) T {
	t := len(share) / len(counts)
	kernel.Need(experts, len(counts))
	kernel.Need(ctas, min(grid, t))
	partials, sums := kernel.Borrow[T](ctas.N), kernel.Borrow[T](len(counts))
	defer kernel.GiveBack(partials)
	defer kernel.GiveBack(sums)
	for b := range ctas.N {
		own := rows((t - b + grid - 1) / grid)
		kernel.Need(own, (t-b+grid-1)/grid)
		for at := 0; at < len(counts); at += e {
			kernel.SumRows(own, (*sums)[at:at+e], share[at*t+b*e:], grid*e)
		}
		for i := range *sums {
			(*sums)[i] = T((*sums)[i] * T(counts[i]))
		}
		(*partials)[b] = T(kernel.Sum(experts, *sums, 1) * c)
	}
	if probe != nil {
		ctas.Visit(func(_, leaf int) { probe(leaf, (*partials)[leaf]) })
	}
	return kernel.Sum(ctas, *partials, 1) / T(len(counts)/e)
}

// auxLossBySequence is auxLoss sequence by sequence: each has a sum of its own, so that the
// losses of two halves of a batch add up to that of the whole.
//
//	loss = Σ_b auxLoss of b / B
//
// Shapes:  share P (B·S,E), counts n (B,E).
// Reduces: a CTA's columns, the E experts, by experts; rows and ctas as auxLoss; sequences.
func auxLossBySequence[T libm.Float](share []T, counts []int32, e, grid int, c T, rows func(n int) kernel.Fold, experts, ctas, sequences kernel.Fold, probe func(cta int, partial T)) T {
	b := len(counts) / e
	kernel.Need(sequences, b)
	each := kernel.Borrow[T](b)
	defer kernel.GiveBack(each)
	size := len(share) / b
	for i := range *each {
		(*each)[i] = auxLoss(share[i*size:][:size], counts[i*e:][:e], e, grid, c, rows, experts, ctas, probe)
	}
	return kernel.Sum(sequences, *each, 1) / T(b)
}

// auxLossBackward is dP_bti = C·n_bi·scale/B.
func auxLossBackward[T libm.Float](dshare []T, counts []int32, e int, c, scale T) {
	sequence := len(dshare) / (len(counts) / e)
	scale /= T(len(counts) / e)
	for i := range dshare {
		dshare[i] = T(T(counts[i/sequence*e+i%e])*c) * scale
	}
}

// zLoss is coeff·mean_t(lse(logits_t)²).
//
// Shapes:  logits (rows,E).
// Reduces: experts inside the log-sum-exp, then tokens.
func zLoss[T libm.Float](logits []T, e int, coeff T, experts, tokens kernel.Fold) T {
	return T(zSum(logits, e, 1, experts, tokens)/T(tokens.N)) * coeff
}

// zLossByToken is mean_t(coeff·lse(logits_t)²): with the coefficient in every token's term, the losses of
// two halves add up to that of the whole.
//
// Shapes:  logits (rows,E).
// Reduces: experts inside the log-sum-exp, then tokens.
func zLossByToken[T libm.Float](logits []T, e int, coeff T, experts, tokens kernel.Fold) T {
	return zSum(logits, e, coeff, experts, tokens) / T(tokens.N)
}

// zSum is Σ_t coeff·lse(logits_t)².
func zSum[T libm.Float](logits []T, e int, coeff T, experts, tokens kernel.Fold) T {
	t := len(logits) / e
	kernel.Need(experts, e)
	kernel.Need(tokens, t)
	squares, buf := kernel.Borrow[T](t), kernel.Borrow[T](e)
	defer kernel.GiveBack(squares)
	defer kernel.GiveBack(buf)
	for i := range t {
		l := nn.LogSumExp(*buf, logits[i*e:][:e], experts)
		(*squares)[i] = T(T(l*l) * coeff)
	}
	return kernel.Sum(tokens, *squares, 1)
}

// zLossBackward is dlogits = scale·coeff/T·2·lse·softmax(logits).
func zLossBackward[T libm.Float](dlogits, logits []T, e int, coeff, scale T, experts kernel.Fold) {
	kernel.Need(experts, e)
	t := len(logits) / e
	for i := range t {
		x, d := logits[i*e:][:e], dlogits[i*e:][:e]
		l := nn.LogSumExp(d, x, experts)
		g := T(T(T(2*l)*coeff)/T(t)) * scale
		for j, v := range x {
			d[j] = libm.ExpOf(v-l) * g
		}
	}
}
