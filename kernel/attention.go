package kernel

import "firstbit/libm"

// AttentionShape is the extents of causal grouped-query attention: B sequences of T
// tokens, H query heads and KV key-value heads (dividing H) of width P.
type AttentionShape struct{ B, T, H, KV, P int }

// AttentionFolds are the orders of its sums.
type AttentionFolds struct {
	P       Fold // over P: q·k, and do·v in the backward
	Keys    Fold // over the T keys: softmax denominator, p·v, and Σ p·dp
	DQ      Fold // over the T keys: dq
	Queries Fold // over the query heads of a group, then their T queries: dk and dv
}

// Attention is o = softmax(scale·q·kᵀ)·v, each query seeing itself and what came before.
// A key in the future is absent from the sums, not a zero in them: whatever it holds, infinities
// and NaN too, no earlier query sees it. Its probability is stored as zero.
//
// Shapes:  q (B·T,H·P), k, v (B·T,KV·P) → o (B·T,H·P), probs (B,H,T,T).
// Reduces: P, and the keys twice.
func Attention[T libm.Float](o, probs, q, k, v []T, s AttentionShape, scale T, f AttentionFolds) {
	need(f.Keys, s.T)
	for b := range s.B {
		for h := range s.H {
			kv := h / (s.H / s.KV)
			p := probs[(b*s.H+h)*s.T*s.T:][:s.T*s.T]
			MatMul(p, s.T, head(s, q, b, h, s.H), head(s, k, b, kv, s.KV).T(), s.T, s.T, s.P, f.P)
			for t := range s.T {
				softmaxRow(p[t*s.T:][:s.T], t+1, scale, f.Keys)
			}
			causal(f.Keys, head(s, o, b, h, s.H), RowMajor(p, s.T), head(s, v, b, kv, s.KV), s, pastOnly)
		}
	}
}

// head is the (T,P) matrix of one head of one sequence inside x (B·T, heads·P).
func head[T libm.Float](s AttentionShape, x []T, b, h, heads int) Mat[T] {
	return Mat[T]{x[b*s.T*heads*s.P+h*s.P:], heads * s.P, 1}
}

// softmaxRow turns the first n scores into probabilities and clears the rest.
func softmaxRow[T libm.Float](x []T, n int, scale T, f Fold) {
	for j := range n {
		x[j] = T(x[j] * scale)
	}
	expLess(x[:n], x[:n], largest(x[:n]))
	clear(x[n:])
	sum := Sum(f, x, 1)
	for j := range n {
		x[j] /= sum
	}
}

// AttentionBackward is the gradients of q, k and v.
//
//	forward:  s = scale·q·kᵀ ;  p = softmax(s) ;  o = p·v
//	dp = do·vᵀ ;  ds = scale·p∘(dp − Σ_j p·dp)
//	dq = ds·k ;  dk = dsᵀ·q ;  dv = pᵀ·do
//
// A query and a key after it are absent from each other's sums.
//
// Shapes:  do (B·T,H·P), probs (B,H,T,T) → dq (B·T,H·P), dk, dv (B·T,KV·P).
// Reduces: P and the keys inside ds; the keys into dq; the query heads of a group and their
// queries into dk and dv, heads outer.
func AttentionBackward[T libm.Float](dq, dk, dv, do, q, k, v, probs []T, s AttentionShape, scale T, f AttentionFolds) {
	group, square := s.H/s.KV, s.T*s.T
	need(f.Keys, s.T)
	need(f.DQ, s.T)
	need(f.Queries, group*s.T)
	ds, qs, dos := borrow[T](group*square), borrow[T](group*s.T*s.P), borrow[T](group*s.T*s.P)
	defer giveBack(ds)
	defer giveBack(qs)
	defer giveBack(dos)
	for b := range s.B {
		for kv := range s.KV {
			km, vm := head(s, k, b, kv, s.KV), head(s, v, b, kv, s.KV)
			ps := probs[(b*s.H+kv*group)*square:][:group*square]
			for g := range group {
				h := kv*group + g
				d := (*ds)[g*square:][:square]
				MatMul(d, s.T, head(s, do, b, h, s.H), vm.T(), s.T, s.T, s.P, f.P)
				scoreGradient(d, ps[g*square:][:square], s.T, scale, f.Keys)
				causal(f.DQ, head(s, dq, b, h, s.H), RowMajor(d, s.T), km, s, pastOnly)
				copyHead((*qs)[g*s.T*s.P:], head(s, q, b, h, s.H), s)
				copyHead((*dos)[g*s.T*s.P:], head(s, do, b, h, s.H), s)
			}
			causal(f.Queries, head(s, dk, b, kv, s.KV), RowMajor(*ds, s.T).T(), RowMajor(*qs, s.P), s, futureOnly)
			causal(f.Queries, head(s, dv, b, kv, s.KV), RowMajor(ps, s.T).T(), RowMajor(*dos, s.P), s, futureOnly)
		}
	}
}

// scoreGradient turns dp into ds = scale·p∘(dp − Σ_j p·dp), row by row.
func scoreGradient[T libm.Float](dp, p []T, t int, scale T, keys Fold) {
	for i := range t {
		d, pi := dp[i*t:][:t], p[i*t:][:t]
		fill(d[i+1:], Negzero[T]()) // p is 0 there, 0·−0 = −0: absent
		s := Dot(keys, pi, 1, d, 1)
		for j, pj := range pi[:i+1] {
			d[j] = T(pj*(d[j]-s)) * scale
		}
	}
}

// copyHead lays a head's rows down one after another.
func copyHead[T libm.Float](dst []T, m Mat[T], s AttentionShape) {
	for t := range s.T {
		copy(dst[t*s.P:][:s.P], m.Data[t*m.Row:][:s.P])
	}
}
