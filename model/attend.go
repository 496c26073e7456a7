package model

import (
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/nn"
)

// attentionShape is the extents of causal grouped-query attention: B sequences of T
// tokens, H query heads and KV key-value heads (dividing H) of width P.
type attentionShape struct {
	B, T, H, KV, P int

	// Where the queries are a run of each sequence's steps: how many, and the step of the first. 0 queries: all T.
	Queries, First int

	// Starts (B,T) is, of every step, the one that its document begins at; nil: sequences are documents.
	Starts []int32
}

// Steps is the number of queries of a sequence.
func (s attentionShape) Steps() int {
	if s.Queries == 0 {
		return s.T
	}
	return s.Queries
}

// steps are those of sequence b.
func (s attentionShape) steps(b int) kernel.Steps {
	steps := kernel.Steps{Keys: s.T, Queries: s.Steps(), First: s.First}
	if s.Starts != nil {
		steps.Starts = s.Starts[b*s.T:][:s.T]
	}
	return steps
}

// attentionFolds are the orders of its sums.
type attentionFolds struct {
	P       kernel.Fold // over P: q·k, and do·v in the backward
	Keys    kernel.Fold // over the T keys: softmax denominator, p·v, and Σ p·dp
	DQ      kernel.Fold // over the T keys: dq
	Queries kernel.Fold // over the query heads of a group, then their queries: dk and dv

	// Where Segments joins more than one, Queries adds the heads and queries of one of as many equal segments of the
	// queries, and Segments what they sum to.
	Segments kernel.Fold
}

// attend is o = softmax(scale·q·kᵀ)·v, each query seeing itself and what came before in its document.
// A key in the future, or of another document, is absent from the sums, not a zero in them: whatever it holds, infinities
// and NaN too, no earlier query sees it. Its probability is stored as zero.
//
// Shapes:  q (B·Q,H·P), k, v (B·T,KV·P) → o (B·Q,H·P), probs (B,H,Q,T); Q is T unless the shape says.
// Reduces: P, and the keys twice.
func attend[T libm.Float](o, probs, q, k, v []T, s attentionShape, scale T, f attentionFolds) {
	kernel.Need(f.Keys, s.T)
	n := s.Steps()
	for b := range s.B {
		steps := s.steps(b)
		for h := range s.H {
			kv := h / (s.H / s.KV)
			p := probs[(b*s.H+h)*n*s.T:][:n*s.T]
			// No query sees a key after the last query.
			kernel.MatMul(p, s.T, head(q, s.P, n, b, h, s.H), head(k, s.P, s.T, b, kv, s.KV).T(), n, s.First+n, s.P, f.P)
			for t := range n {
				softmaxRow(p[t*s.T:][:s.T], steps.Begin(s.First+t), s.First+t+1, scale, f.Keys)
			}
			kernel.Causal(f.Keys, head(o, s.P, n, b, h, s.H), kernel.RowMajor(p, s.T), head(v, s.P, s.T, b, kv, s.KV), s.P, steps, kernel.PastOnly)
		}
	}
}

// head is the (n,P) matrix of one head of one sequence inside x (B·n, heads·P).
func head[T libm.Float](x []T, p, n, b, h, heads int) kernel.Mat[T] {
	return kernel.RowMajor(x[b*n*heads*p+h*p:], heads*p)
}

// softmaxRow turns the scores from lo to hi into probabilities and clears the rest.
func softmaxRow[T libm.Float](x []T, lo, hi int, scale T, f kernel.Fold) {
	seen := x[lo:hi]
	for j := range seen {
		seen[j] = T(seen[j] * scale)
	}
	nn.ExpLess(seen, seen, nn.Largest(seen))
	clear(x[:lo])
	clear(x[hi:])
	sum := kernel.Sum(f, x, 1)
	for j := range seen {
		seen[j] /= sum
	}
}

// attendBackward is the gradients of q, k and v.
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
func attendBackward[T libm.Float](dq, dk, dv, do, q, k, v, probs []T, s attentionShape, scale T, f attentionFolds) {
	group, n := s.H/s.KV, s.Steps()
	segments := max(segmentsOf(f), 1)
	kernel.Need(f.Keys, s.T)
	kernel.Need(f.DQ, s.T)
	kernel.Need(f.Queries, group*n/segments)
	ds, qs, dos := kernel.Borrow[T](group*n*s.T), kernel.Borrow[T](group*n*s.P), kernel.Borrow[T](group*n*s.P)
	defer kernel.GiveBack(ds)
	defer kernel.GiveBack(qs)
	defer kernel.GiveBack(dos)
	var ps *[]T // of a group's heads, laid down as ds is; as they lie, unless segments come first
	if segments > 1 {
		ps = kernel.Borrow[T](group * n * s.T)
		defer kernel.GiveBack(ps)
	}
	w := attentionQueries[T]{shape: s, folds: f, group: group, size: n / segments, ds: *ds, qs: *qs, dos: *dos}
	for b := range s.B {
		w.steps = s.steps(b)
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
func segmentsOf(f attentionFolds) int {
	if f.Segments.Program == nil {
		return 1
	}
	return f.Segments.N
}

// attentionQueries is the backward of one group of query heads. Runs of size queries of one head follow one another: the heads of a
// segment, then the next segment. Without segments a run is a head.
type attentionQueries[T libm.Float] struct {
	shape attentionShape
	folds attentionFolds
	steps kernel.Steps // of the sequence at hand

	group, size int
	ds, qs, dos []T // of each query: T score gradients, its q, its do
}

// scores makes run i, of the queries from t on of one head, and their dq.
func (w attentionQueries[T]) scores(i, t int, q, do, dq, k, v kernel.Mat[T], p []T, scale T) {
	at := w.steps
	at.First, at.Queries = at.First+t, w.size
	d := w.ds[i*w.size*w.shape.T:][:w.size*w.shape.T]
	kernel.MatMul(d, w.shape.T, do.From(t), v.T(), w.size, at.First+w.size, w.shape.P, w.folds.P)
	scoreGradient(d, p, at, scale, w.folds.Keys)
	kernel.Causal(w.folds.DQ, dq.From(t), kernel.RowMajor(d, w.shape.T), k, w.shape.P, at, kernel.PastOnly)
	copyHead(w.qs[i*w.size*w.shape.P:], q.From(t), w.size, w.shape.P)
	copyHead(w.dos[i*w.size*w.shape.P:], do.From(t), w.size, w.shape.P)
}

// keys adds weighted rows of the queries into every key: dk or dv.
func (w attentionQueries[T]) keys(dst kernel.Mat[T], weight, rows []T) {
	segments := w.shape.Steps() / w.size
	if segments == 1 {
		kernel.Causal(w.folds.Queries, dst, kernel.RowMajor(weight, w.shape.T).T(), kernel.RowMajor(rows, w.shape.P), w.shape.P, w.steps, kernel.FutureOnly)
		return
	}
	at := w.steps
	at.Queries = w.size
	p := w.shape.P
	run, width := w.group*w.size, at.Keys*p
	sums := kernel.Borrow[T](segments * width)
	defer kernel.GiveBack(sums)
	for i := range segments {
		at.First = w.steps.First + i*w.size
		kernel.Causal(w.folds.Queries, kernel.RowMajor((*sums)[i*width:], p), kernel.RowMajor(weight[i*run*at.Keys:], at.Keys).T(), kernel.RowMajor(rows[i*run*p:], p), p, at, kernel.FutureOnly)
	}
	for t := range at.Keys {
		kernel.SumRows(w.folds.Segments, dst.Data[t*dst.Row:][:p], (*sums)[t*p:], width)
	}
}

// scoreGradient turns dp into ds = scale·p∘(dp − Σ_j p·dp), row by row.
func scoreGradient[T libm.Float](dp, p []T, s kernel.Steps, scale T, keys kernel.Fold) {
	for i := range s.Queries {
		d, pi := dp[i*s.Keys:][:s.Keys], p[i*s.Keys:][:s.Keys]
		lo, hi := s.Begin(s.First+i), s.First+i+1
		kernel.Fill(d[:lo], kernel.Negzero[T]()) // p is 0 there, 0·−0 = −0: absent
		kernel.Fill(d[hi:], kernel.Negzero[T]())
		sum := kernel.Dot(keys, pi, 1, d, 1)
		for j := lo; j < hi; j++ {
			d[j] = T(pi[j]*(d[j]-sum)) * scale
		}
	}
}

// copyHead lays a head's rows down one after another.
func copyHead[T libm.Float](dst []T, m kernel.Mat[T], n, p int) {
	for t := range n {
		copy(dst[t*p:][:p], m.Data[t*m.Row:][:p])
	}
}
