package kernel

import "firstbit/libm"

// AuxLoss is the fused load-balancing loss: grid CTAs share the positions, and each adds what it
// has to the total. It is the mean over B sequences of S positions; as one sequence it is the
// loss of a whole microbatch.
//
//	loss = Σ_c C·Σ_b,i n_bi·Σ_{t ≡ c mod grid} P_bti / B
//
// Shapes:  share P (B·S,E), counts n (B,E).
// Reduces: CTA c its positions c, c+grid, … by rows; a CTA's columns, the B·E experts of all
// sequences, by experts; CTAs by ctas, a fold over min(grid, S).
// Source:  docs/facts.md, Model and Kernels; Megatron Core's fused auxiliary loss, which lays sequences side by side.
func AuxLoss[T libm.Float](share []T, counts []int32, e, grid int, c T, rows func(n int) Fold, experts, ctas Fold, probe func(cta int, partial T)) T {
	t := len(share) / len(counts)
	Need(experts, len(counts))
	Need(ctas, min(grid, t))
	partials, sums := Borrow[T](ctas.N), Borrow[T](len(counts))
	defer GiveBack(partials)
	defer GiveBack(sums)
	for b := range ctas.N {
		own := rows((t - b + grid - 1) / grid)
		Need(own, (t-b+grid-1)/grid)
		for at := 0; at < len(counts); at += e {
			SumRows(own, (*sums)[at:at+e], share[at*t+b*e:], grid*e)
		}
		for i := range *sums {
			(*sums)[i] = T((*sums)[i] * T(counts[i]))
		}
		(*partials)[b] = T(Sum(experts, *sums, 1) * c)
	}
	if probe != nil {
		ctas.visit(func(_, leaf int) { probe(leaf, (*partials)[leaf]) })
	}
	return Sum(ctas, *partials, 1) / T(len(counts)/e)
}

// AuxLossBySequence is AuxLoss sequence by sequence: each has a sum of its own, so that the
// losses of two halves of a batch add up to that of the whole.
//
//	loss = Σ_b AuxLoss of b / B
//
// Shapes:  share P (B·S,E), counts n (B,E).
// Reduces: a CTA's columns, the E experts, by experts; rows and ctas as AuxLoss; sequences.
func AuxLossBySequence[T libm.Float](share []T, counts []int32, e, grid int, c T, rows func(n int) Fold, experts, ctas, sequences Fold, probe func(cta int, partial T)) T {
	b := len(counts) / e
	Need(sequences, b)
	each := Borrow[T](b)
	defer GiveBack(each)
	size := len(share) / b
	for i := range *each {
		(*each)[i] = AuxLoss(share[i*size:][:size], counts[i*e:][:e], e, grid, c, rows, experts, ctas, probe)
	}
	return Sum(sequences, *each, 1) / T(b)
}

// AuxLossBackward is dP_bti = C·n_bi·scale/B.
func AuxLossBackward[T libm.Float](dshare []T, counts []int32, e int, c, scale T) {
	sequence := len(dshare) / (len(counts) / e)
	scale /= T(len(counts) / e)
	for i := range dshare {
		dshare[i] = T(T(counts[i/sequence*e+i%e])*c) * scale
	}
}

// ZLoss is coeff·mean_t(lse(logits_t)²).
//
// Shapes:  logits (rows,E).
// Reduces: experts inside the log-sum-exp, then tokens.
func ZLoss[T libm.Float](logits []T, e int, coeff T, experts, tokens Fold) T {
	return T(zSum(logits, e, 1, experts, tokens)/T(tokens.N)) * coeff
}

// ZLossByToken is mean_t(coeff·lse(logits_t)²): with the coefficient in every token's term, the losses of
// two halves add up to that of the whole.
//
// Shapes:  logits (rows,E).
// Reduces: experts inside the log-sum-exp, then tokens.
func ZLossByToken[T libm.Float](logits []T, e int, coeff T, experts, tokens Fold) T {
	return zSum(logits, e, coeff, experts, tokens) / T(tokens.N)
}

// zSum is Σ_t coeff·lse(logits_t)².
func zSum[T libm.Float](logits []T, e int, coeff T, experts, tokens Fold) T {
	t := len(logits) / e
	Need(experts, e)
	Need(tokens, t)
	squares, buf := Borrow[T](t), Borrow[T](e)
	defer GiveBack(squares)
	defer GiveBack(buf)
	for i := range t {
		l := LogSumExp(*buf, logits[i*e:][:e], experts)
		(*squares)[i] = T(T(l*l) * coeff)
	}
	return Sum(tokens, *squares, 1)
}

// ZLossBackward is dlogits = scale·coeff/T·2·lse·softmax(logits).
func ZLossBackward[T libm.Float](dlogits, logits []T, e int, coeff, scale T, experts Fold) {
	Need(experts, e)
	t := len(logits) / e
	for i := range t {
		x, d := logits[i*e:][:e], dlogits[i*e:][:e]
		l := LogSumExp(d, x, experts)
		g := T(T(T(2*l)*coeff)/T(t)) * scale
		for j, v := range x {
			d[j] = libm.ExpOf(v-l) * g
		}
	}
}
