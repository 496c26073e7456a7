package kernel

import "firstbit/libm"

// AttentionShape is the extents of causal grouped-query attention: B sequences of T
// tokens, H query heads and KV key-value heads (dividing H) of width P.
type AttentionShape struct {
	B, T, H, KV, P int

	// Where the queries are a run of each sequence's steps: how many, and the step of the first. 0 queries: all T.
	Queries, First int
}

// Steps is the number of queries of a sequence.
func (s AttentionShape) Steps() int {
	if s.Queries == 0 {
		return s.T
	}
	return s.Queries
}

func (s AttentionShape) steps() Steps { return Steps{s.T, s.Steps(), s.First} }

// AttentionFolds are the orders of its sums.
type AttentionFolds struct {
	P       Fold // over P: q·k, and do·v in the backward
	Keys    Fold // over the T keys: softmax denominator, p·v, and Σ p·dp
	DQ      Fold // over the T keys: dq
	Queries Fold // over the query heads of a group, then their queries: dk and dv

	// Where Segments joins more than one, Queries adds the heads and queries of one of as many equal segments of the
	// queries, and Segments what they sum to.
	Segments Fold
}

// Attention is o = softmax(scale·q·kᵀ)·v, each query seeing itself and what came before.
// A key in the future is absent from the sums, not a zero in them: whatever it holds, infinities
// and NaN too, no earlier query sees it. Its probability is stored as zero.
//
// Shapes:  q (B·Q,H·P), k, v (B·T,KV·P) → o (B·Q,H·P), probs (B,H,Q,T); Q is T unless the shape says.
// Reduces: P, and the keys twice.
func Attention[T libm.Float](o, probs, q, k, v []T, s AttentionShape, scale T, f AttentionFolds) {
	Need(f.Keys, s.T)
	n := s.Steps()
	for b := range s.B {
		for h := range s.H {
			kv := h / (s.H / s.KV)
			p := probs[(b*s.H+h)*n*s.T:][:n*s.T]
			// No query sees a key after the last query.
			MatMul(p, s.T, head(q, s.P, n, b, h, s.H), head(k, s.P, s.T, b, kv, s.KV).T(), n, s.First+n, s.P, f.P)
			for t := range n {
				softmaxRow(p[t*s.T:][:s.T], s.First+t+1, scale, f.Keys)
			}
			Causal(f.Keys, head(o, s.P, n, b, h, s.H), RowMajor(p, s.T), head(v, s.P, s.T, b, kv, s.KV), s.P, s.steps(), PastOnly)
		}
	}
}

// head is the (n,P) matrix of one head of one sequence inside x (B·n, heads·P).
func head[T libm.Float](x []T, p, n, b, h, heads int) Mat[T] {
	return Mat[T]{x[b*n*heads*p+h*p:], heads * p, 1}
}

// from is the matrix from row i on.
func (m Mat[T]) from(i int) Mat[T] { return Mat[T]{m.Data[i*m.Row:], m.Row, m.Col} }

// softmaxRow turns the first n scores into probabilities and clears the rest.
func softmaxRow[T libm.Float](x []T, n int, scale T, f Fold) {
	for j := range n {
		x[j] = T(x[j] * scale)
	}
	ExpLess(x[:n], x[:n], Largest(x[:n]))
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
// Shapes:  do (B·Q,H·P), probs (B,H,Q,T) → dq (B·Q,H·P), dk, dv (B·T,KV·P).
// Reduces: P and the keys inside ds; the keys into dq; the query heads of a group and their
// queries into dk and dv, heads outer; with segments these outermost.
func AttentionBackward[T libm.Float](dq, dk, dv, do, q, k, v, probs []T, s AttentionShape, scale T, f AttentionFolds) {
	group, n := s.H/s.KV, s.Steps()
	segments := max(segmentsOf(f), 1)
	Need(f.Keys, s.T)
	Need(f.DQ, s.T)
	Need(f.Queries, group*n/segments)
	ds, qs, dos := Borrow[T](group*n*s.T), Borrow[T](group*n*s.P), Borrow[T](group*n*s.P)
	defer GiveBack(ds)
	defer GiveBack(qs)
	defer GiveBack(dos)
	var ps *[]T // of a group's heads, laid down as ds is; as they lie, unless segments come first
	if segments > 1 {
		ps = Borrow[T](group * n * s.T)
		defer GiveBack(ps)
	}
	w := attentionQueries[T]{s, f, group, n / segments, *ds, *qs, *dos}
	for b := range s.B {
		for kv := range s.KV {
			km, vm := head(k, s.P, s.T, b, kv, s.KV), head(v, s.P, s.T, b, kv, s.KV)
			p := probs[(b*s.H+kv*group)*n*s.T:][:group*n*s.T]
			for i := range group * segments {
				h, t := kv*group+i%group, i/group*w.size
				rows := p[(i%group*n+t)*s.T:][:w.size*s.T]
				w.scores(i, t, head(q, s.P, n, b, h, s.H), head(do, s.P, n, b, h, s.H), head(dq, s.P, n, b, h, s.H), km, vm, rows, scale)
				if ps != nil {
					copy((*ps)[i*w.size*s.T:], rows)
				}
			}
			if ps != nil {
				p = *ps
			}
			w.keys(head(dk, s.P, s.T, b, kv, s.KV), *ds, *qs)
			w.keys(head(dv, s.P, s.T, b, kv, s.KV), p, *dos)
		}
	}
}

// segmentsOf is how many segments the queries are added in; none is one.
func segmentsOf(f AttentionFolds) int {
	if f.Segments.Program == nil {
		return 1
	}
	return f.Segments.N
}

// attentionQueries is the backward of one group of query heads. Runs of size queries of one head follow one another: the heads of a
// segment, then the next segment. Without segments a run is a head.
type attentionQueries[T libm.Float] struct {
	shape AttentionShape
	folds AttentionFolds

	group, size int
	ds, qs, dos []T // of each query: T score gradients, its q, its do
}

// scores makes run i, of the queries from t on of one head, and their dq.
func (w attentionQueries[T]) scores(i, t int, q, do, dq, k, v Mat[T], p []T, scale T) {
	at := w.shape
	at.First, at.Queries = w.shape.First+t, w.size
	d := w.ds[i*w.size*w.shape.T:][:w.size*w.shape.T]
	MatMul(d, w.shape.T, do.from(t), v.T(), w.size, at.First+w.size, w.shape.P, w.folds.P)
	scoreGradient(d, p, w.shape.T, at.First, scale, w.folds.Keys)
	Causal(w.folds.DQ, dq.from(t), RowMajor(d, w.shape.T), k, at.P, at.steps(), PastOnly)
	copyHead(w.qs[i*w.size*w.shape.P:], q.from(t), w.size, w.shape.P)
	copyHead(w.dos[i*w.size*w.shape.P:], do.from(t), w.size, w.shape.P)
}

// keys adds weighted rows of the queries into every key: dk or dv.
func (w attentionQueries[T]) keys(dst Mat[T], weight, rows []T) {
	segments := w.shape.Steps() / w.size
	if segments == 1 {
		Causal(w.folds.Queries, dst, RowMajor(weight, w.shape.T).T(), RowMajor(rows, w.shape.P), w.shape.P, w.shape.steps(), FutureOnly)
		return
	}
	at := w.shape
	at.Queries = w.size
	run, width := w.group*w.size, at.T*at.P
	sums := Borrow[T](segments * width)
	defer GiveBack(sums)
	for i := range segments {
		at.First = w.shape.First + i*w.size
		Causal(w.folds.Queries, RowMajor((*sums)[i*width:], at.P), RowMajor(weight[i*run*at.T:], at.T).T(), RowMajor(rows[i*run*at.P:], at.P), at.P, at.steps(), FutureOnly)
	}
	for t := range at.T {
		SumRows(w.folds.Segments, dst.Data[t*dst.Row:][:at.P], (*sums)[t*at.P:], width)
	}
}

// scoreGradient turns dp into ds = scale·p∘(dp − Σ_j p·dp), row by row, of queries from step first on.
func scoreGradient[T libm.Float](dp, p []T, t, first int, scale T, keys Fold) {
	for i := range len(p) / t {
		d, pi := dp[i*t:][:t], p[i*t:][:t]
		Fill(d[first+i+1:], Negzero[T]()) // p is 0 there, 0·−0 = −0: absent
		s := Dot(keys, pi, 1, d, 1)
		for j, pj := range pi[:first+i+1] {
			d[j] = T(pj*(d[j]-s)) * scale
		}
	}
}

// copyHead lays a head's rows down one after another.
func copyHead[T libm.Float](dst []T, m Mat[T], n, p int) {
	for t := range n {
		copy(dst[t*p:][:p], m.Data[t*m.Row:][:p])
	}
}
