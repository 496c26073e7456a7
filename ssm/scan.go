package ssm

import (
	"firstbit/kernel"
	"firstbit/libm"
)

// ssdShape is the extents of a state-space scan: B sequences of T steps, H heads of width P with
// a state of P×N each, G groups of heads (dividing H) that share b and c, Chunk steps at a time, and where documents begin.
type ssdShape struct {
	B, T, H, P, G, N, Chunk int
	documents
}

// Chunks is the number of chunks of a sequence; the last may be shorter.
func (s ssdShape) Chunks() int { return (s.T + s.Chunk - 1) / s.Chunk }

// length is the number of steps of chunk k.
func (s ssdShape) length(k int) int { return min(s.Chunk, s.T-k*s.Chunk) }

// ssdFolds are the orders of the scan's sums.
type ssdFolds struct {
	N     kernel.Fold             // over the state's N: c·b and c·S, and in the backward dS·b
	Steps func(n int) kernel.Fold // over the n steps of a chunk, wherever steps meet
	P     kernel.Fold             // backward, over a head's width
	State kernel.Fold             // backward, over the P·N elements of a state
	Heads kernel.Fold             // backward, over the heads of a group: db and dc
}

// ssd is the recurrence, of which S is 0 where a document begins,
//
//	S_t = exp(la_t)·S_{t−1} + dt_t·x_t⊗b_t ;  y_t = S_t·c_t + d·x_t
//
// a chunk of steps at a time. With a_t the sum of la from the chunk's start to t, and S the state before it:
//
//	y_t = Σ_{s≤t} (c_t·b_s)·exp(a_t − a_s)·dt_s·x_s + exp(a_t)·S·c_t + d·x_t
//	S′  = exp(a_end)·S + Σ_s exp(a_end − a_s)·dt_s·x_s⊗b_s
//
// Shapes:  x (B·T,H·P), b, c (B·T,G·N), dt, la (B·T,H), d (H), begin (B,H,P,N) → y (B·T,H·P), last (B,H,P,N).
// Reduces: N; the steps of a chunk, into y and into the state. Chunks follow one another, so
// that the order of the state's sum is a chain of chunks. Before the first there is no state, unless
// the steps are a part of a sequence: then begin is what the part before them left, and not nil. Steps of another document,
// and the state that it left, are absent.
// Source:  Dao & Gu 2024, "Transformers are SSMs"; docs/facts.md, Model.
func ssd[T libm.Float](y, last, x, b, c, dt, la, d, begin []T, s ssdShape, f ssdFolds) {
	kernel.Need(f.N, s.N)
	w := newScan(x, b, c, dt, la, s, f)
	defer w.release()
	for seq := range s.B {
		for g := range s.G {
			for k := range s.Chunks() {
				w.enter(seq, g, k)
				for h := g * s.H / s.G; h < (g+1)*s.H/s.G; h++ {
					w.head(h)
					at := (seq*s.H + h) * s.P * s.N
					state := last[at:][:s.P*s.N]
					if k == 0 && begin != nil {
						copy(state, begin[at:])
					}
					w.forward(w.rows(y, h), d[h], state, k == 0 && begin == nil)
				}
			}
		}
	}
}

// scanner is one chunk of one head under way, with what was computed for it.
type scanner[T libm.Float] struct {
	ssdShape
	f                    ssdFolds
	xs, bs, cs, dts, las []T

	row, n  int           // the chunk's first row, and its steps
	steps   kernel.Fold   // over them
	causal  kernel.Steps  // which of them see each other
	reach   int           // how many of them, from the first on, the state before the chunk reaches
	since   int           // the first of them that reaches the state after it
	x, b, c kernel.Mat[T] // (n,P), (n,N), (n,N)

	lent   [20]*[]T // scratch to give back
	count  int
	scores []T // (n,n): c_t·b_s, of the group
	decay  []T // (n,n): exp(a_t − a_s), what is left at t of s; only s ≤ t
	weight []T // (n,n): scores times decay; only s ≤ t
	u      []T // (n,P): dt·x
	a      []T // (n): running sum of la, from the chunk's first step or the document's
	begun  []T // (n): exp(a_t), what is left at t of the state before the chunk
	left   []T // (n): exp(a_end − a_t), what is left of t at the chunk's end
	off    []T // (n,P): S·c
	ru     []T // (n,P): u decayed to the chunk's end
	sum    []T // (P,N): what the chunk adds to the state
}

func newScan[T libm.Float](x, b, c, dt, la []T, s ssdShape, f ssdFolds) *scanner[T] {
	w := &scanner[T]{ssdShape: s, f: f, xs: x, bs: b, cs: c, dts: dt, las: la}
	square, wide := s.Chunk*s.Chunk, s.Chunk*s.P
	w.scores, w.decay, w.weight = w.borrow(square), w.borrow(square), w.borrow(square)
	w.u, w.off, w.ru = w.borrow(wide), w.borrow(wide), w.borrow(wide)
	w.a, w.begun, w.left, w.sum = w.borrow(s.Chunk), w.borrow(s.Chunk), w.borrow(s.Chunk), w.borrow(s.P*s.N)
	return w
}

func (w *scanner[T]) borrow(n int) []T {
	p := kernel.Borrow[T](n)
	w.lent[w.count] = p
	w.count++
	return *p
}

func (w *scanner[T]) release() {
	for _, p := range w.lent[:w.count] {
		kernel.GiveBack(p)
	}
}

// rows is the (n,P) matrix of a head's rows of this chunk in y (B·T,H·P).
func (w *scanner[T]) rows(y []T, h int) kernel.Mat[T] {
	return kernel.RowMajor(y[(w.row*w.H+h)*w.P:], w.H*w.P)
}

// enter goes to chunk k of a sequence and group.
func (w *scanner[T]) enter(seq, g, k int) {
	w.row, w.n = seq*w.T+k*w.Chunk, w.length(k)
	w.steps = w.f.Steps(w.n)
	w.causal, w.reach = w.documents.steps(seq, k*w.Chunk, w.n), w.documents.reach(seq, k*w.Chunk, w.n)
	w.since = w.causal.Begin(w.n - 1)
	group := (w.row*w.G + g) * w.N
	w.b, w.c = kernel.RowMajor(w.bs[group:], w.G*w.N), kernel.RowMajor(w.cs[group:], w.G*w.N)
	kernel.MatMul(w.scores, w.n, w.c, w.b.T(), w.n, w.n, w.N, w.f.N)
}

// head computes what forward and backward need of a head: a, the decays, u, the weights, and u decayed.
func (w *scanner[T]) head(h int) {
	w.x = w.rows(w.xs, h)
	sum := kernel.Negzero[T]()
	for t := range w.n {
		i := (w.row+t)*w.H + h
		if w.begins(t) {
			sum = kernel.Negzero[T]()
		}
		sum += w.las[i]
		w.a[t] = sum
		for p, v := range w.x.Data[t*w.x.Row:][:w.P] {
			w.u[t*w.P+p] = w.dts[i] * v
		}
	}
	libm.ExpSlice(w.begun, w.a[:w.n])
	expMore(w.left, w.a[:w.n], sum)
	for t, r := range w.left[:w.n] {
		decay, scores, weight := w.decay[t*w.n:][:t+1], w.scores[t*w.n:], w.weight[t*w.n:]
		expMore(decay, w.a[:t+1], w.a[t])
		for s, v := range decay {
			weight[s] = scores[s] * v
		}
		for p, v := range w.u[t*w.P:][:w.P] {
			w.ru[t*w.P+p] = r * v
		}
	}
}

// begins tells whether a document begins at step t of the chunk, after its first.
func (w *scanner[T]) begins(t int) bool { return t > 0 && w.causal.Begin(t) == t }

// expMore is e = exp(m − x).
func expMore[T libm.Float](e, x []T, m T) {
	e = e[:len(x)]
	for j, v := range x {
		e[j] = m - v
	}
	libm.ExpSlice(e, e)
}

// forward is the chunk's y, and takes the state from before the chunk to after it.
func (w *scanner[T]) forward(y kernel.Mat[T], d T, state []T, first bool) {
	kernel.Causal(w.steps, y, kernel.RowMajor(w.weight, w.n), kernel.RowMajor(w.u, w.P), w.P, w.causal, kernel.PastOnly)
	if first {
		w.reach = 0
	}
	if w.reach > 0 {
		w.carried(state)
	}
	for t := range w.n {
		row, xt := y.Data[t*y.Row:][:w.P], w.x.Data[t*w.x.Row:][:w.P]
		if t < w.reach {
			e := w.begun[t]
			for p, v := range w.off[t*w.P:][:w.P] {
				row[p] += T(e * v)
			}
		}
		for p, v := range xt {
			row[p] += T(d * v)
		}
	}
	w.advance(state, state)
}

// advance makes the state after the chunk from the one before, where that reaches it; they may be the same slice.
func (w *scanner[T]) advance(after, before []T) {
	w.outer(w.ru, w.b, w.since, w.n)
	if w.reach < w.n {
		copy(after, w.sum)
		return
	}
	decay := w.begun[w.n-1]
	for i, v := range before {
		after[i] = T(decay*v) + w.sum[i]
	}
}

// outer sets sum to Σ u⊗v over the chunk's steps from lo to hi.
func (w *scanner[T]) outer(u []T, v kernel.Mat[T], lo, hi int) {
	if lo == 0 && hi == w.n {
		kernel.MatMul(w.sum, w.N, kernel.RowMajor(u, w.P).T(), v, w.P, w.N, w.n, w.steps)
		return
	}
	kernel.Within(w.steps, kernel.RowMajor(w.sum, w.N), kernel.RowMajor(u, w.P).T(), v, w.P, w.N, w.n, lo, hi)
}

// carried sets off to S·c, what the state before the chunk says at each step.
func (w *scanner[T]) carried(before []T) {
	kernel.MatMul(w.off, w.P, w.c, kernel.RowMajor(before, w.N).T(), w.n, w.P, w.N, w.f.N)
}
