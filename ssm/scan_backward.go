package ssm

import (
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/nn"
)

// ssdGradients are what ssdBackward writes, in the shapes of what they are the gradients of. Begin is written where there is
// a state to begin with.
type ssdGradients[T libm.Float] struct{ X, B, C, DT, LA, Begin []T }

// ssdBackward is the gradients of everything ssd reads but d (see skipBackward).
//
// With u = dt·x, W_ts = (c_t·b_s)·exp(a_t − a_s), S the state before the chunk, dS′ the gradient of
// the one after it, r_s = exp(a_end − a_s), e_t = exp(a_t), q = exp(a_end):
//
//	forward:  y_t = Σ_{s≤t} W_ts·u_s + e_t·S·c_t + d·x_t ;  S′ = q·S + Σ_s r_s·u_s⊗b_s
//	dW_ts = dy_t·u_s
//	du_s  = Σ_{t≥s} W_ts·dy_t + r_s·dS′·b_s          dx = dt·du + d·dy ;  ddt = du·x
//	dc_t  = Σ_{s≤t} dW_ts·exp(a_t − a_s)·b_s + e_t·dy_t·S
//	db_s  = Σ_{t≥s} dW_ts·exp(a_t − a_s)·c_t + r_s·u_s·dS′
//	da_t  = Σ_s dW_ts·W_ts − Σ_t′ dW_t′t·W_t′t + e_t·dy_t·(S·c_t) − r_t·u_t·(dS′·b_t)
//	da_end += Σ_s r_s·u_s·(dS′·b_s) + q·⟨dS′, S⟩
//	dS    = q·dS′ + Σ_t e_t·dy_t⊗c_t                  dla_t = Σ_{t′≥t} da_t′
//
// Steps of other documents are absent from each of these sums, S and dS′ where they are another document's; da reaches
// back to the first step of a document. The states are computed again, by the chunk size given here. Where the steps are a part of a sequence and others follow,
// dlast is the gradient of the state after them; else nil.
//
// Shapes:  dy (B·T,H·P), dlast (B,H,P,N); the rest as in ssd.
// Reduces: P, N, the steps of a chunk, the elements of a state; the heads of a group into db and dc.
func ssdBackward[T libm.Float](grad ssdGradients[T], dy, dlast, x, b, c, dt, la, d, begin []T, s ssdShape, f ssdFolds) {
	kernel.Need(f.N, s.N)
	kernel.Need(f.P, s.P)
	kernel.Need(f.State, s.P*s.N)
	w := &backScanner[T]{scanner: newScan(x, b, c, dt, la, s, f)}
	w.allocate()
	defer w.release()
	rows, per, size := s.B*s.T, s.H/s.G, s.H/s.G*s.P*s.N
	for seq := range s.B {
		for g := range s.G {
			at := (seq*s.G + g) * size
			if begin != nil {
				w.before = begin[at:][:size]
			}
			if dlast != nil {
				copy(w.ds, dlast[at:][:size])
			}
			w.remember(seq, g)
			for k := s.Chunks() - 1; k >= 0; k-- {
				w.enter(seq, g, k)
				for i := range per {
					h := g*per + i
					w.head(h)
					w.dy, w.last = w.rows(dy, h), k == s.Chunks()-1 && dlast == nil
					w.backward(w.state(i, k-1), w.ds[i*s.P*s.N:][:s.P*s.N], h)
					w.store(grad, h, d[h])
				}
			}
			if begin != nil {
				copy(grad.Begin[at:], w.ds)
			}
		}
	}
	for i := range rows * s.G { // (row, group): the heads' shares meet
		kernel.SumRows(f.Heads, grad.B[i*s.N:][:s.N], w.dbs[i*per*s.N:], s.N)
		kernel.SumRows(f.Heads, grad.C[i*s.N:][:s.N], w.dcs[i*per*s.N:], s.N)
	}
}

type backScanner[T libm.Float] struct {
	*scanner[T]
	dy       kernel.Mat[T] // (n,P)
	last     bool          // no chunk follows, here or elsewhere
	before   []T           // (per,P,N): of the group's heads, before the first chunk; nil: none
	dbs, dcs []T           // (B·T,H,N): each head's share
	states   []T           // (Chunks,per,P,N): after each chunk of a sequence and group
	ds       []T           // (per,P,N): gradient of the state after the chunk, then of the one before
	du, v    []T           // (n,P)
	dw, z    []T           // (n,n)
	da       []T           // (n)
	db, dc   kernel.Mat[T] // (n,N): this head's rows of dbs and dcs
	part     []T           // (n,N) or (P,N)
}

func (w *backScanner[T]) allocate() {
	rows := w.B * w.T
	w.dbs, w.dcs = w.borrow(rows*w.H*w.N), w.borrow(rows*w.H*w.N)
	w.ds = w.borrow(w.H / w.G * w.P * w.N)
	w.states = w.borrow(w.Chunks() * len(w.ds))
	w.du, w.v = w.borrow(w.Chunk*w.P), w.borrow(w.Chunk*w.P)
	w.dw, w.z = w.borrow(w.Chunk*w.Chunk), w.borrow(w.Chunk*w.Chunk)
	w.da, w.part = w.borrow(w.Chunk), w.borrow(max(w.Chunk, w.P)*w.N)
}

// remember runs the states of a sequence and group forward.
func (w *backScanner[T]) remember(seq, g int) {
	per := w.H / w.G
	for k := range w.Chunks() - 1 { // nobody reads the last
		w.enter(seq, g, k)
		for i := range per {
			w.head(g*per + i)
			if k == 0 && w.before == nil {
				w.reach = 0
			}
			w.advance(w.state(i, k), w.state(i, k-1))
		}
	}
}

// state is the state of the group's head i after chunk k; before the first what the sequence's part begins with, or nil.
func (w *backScanner[T]) state(i, k int) []T {
	size := w.P * w.N
	switch {
	case k < 0 && w.before == nil:
		return nil
	case k < 0:
		return w.before[i*size:][:size]
	}
	return w.states[(k*w.H/w.G+i)*size:][:size]
}

// backward is one head's share of one chunk. before is nil in the first; ds comes as the
// gradient of the state after the chunk and leaves as that of the state before.
func (w *backScanner[T]) backward(before, ds []T, h int) {
	at, ld := (w.row*w.H+h)*w.N, w.H*w.N
	w.db, w.dc = kernel.RowMajor(w.dbs[at:], ld), kernel.RowMajor(w.dcs[at:], ld)
	w.within()
	if !w.last {
		w.fromAfter(ds)
	}
	if before != nil {
		w.fromBefore(before, ds)
	}
}

// within is the gradients of W·u.
func (w *backScanner[T]) within() {
	n, p, steps := w.n, w.P, w.causal
	kernel.Causal(w.steps, kernel.RowMajor(w.du, p), kernel.RowMajor(w.weight, n).T(), w.dy, p, steps, kernel.FutureOnly)
	kernel.MatMul(w.dw, n, w.dy, kernel.RowMajor(w.u, p).T(), n, n, p, w.f.P)
	kernel.Fill(w.z[:n*n], kernel.Negzero[T]()) // the future is absent, and other documents
	for t := range n {
		for s := steps.Begin(t); s <= t; s++ {
			i := t*n + s
			w.z[i] = w.dw[i] * w.weight[i]
			w.dw[i] *= w.decay[i]
		}
	}
	kernel.Causal(w.steps, w.dc, kernel.RowMajor(w.dw, n), w.b, w.N, steps, kernel.PastOnly)
	kernel.Causal(w.steps, w.db, kernel.RowMajor(w.dw, n).T(), w.c, w.N, steps, kernel.FutureOnly)
	for t := range n {
		w.da[t] = kernel.Sum(w.steps, w.z[t*n:], 1) - kernel.Sum(w.steps, w.z[t:], n)
	}
}

// fromAfter adds what reaches the chunk through the state after it.
func (w *backScanner[T]) fromAfter(ds []T) {
	n, p := w.n, w.P
	kernel.MatMul(w.v, p, w.b, kernel.RowMajor(ds, w.N).T(), n, p, w.N, w.f.N) // dS′·b
	kernel.Fill(w.z[:w.since], kernel.Negzero[T]())
	for t := w.since; t < n; t++ {
		r := w.left[t]
		vt := w.v[t*p:][:p]
		share := kernel.Dot(w.f.P, w.ru[t*p:], 1, vt, 1)
		w.z[t] = share
		w.da[t] -= share
		for j, v := range vt {
			w.du[t*p+j] += T(r * v)
		}
	}
	w.da[n-1] += kernel.Sum(w.steps, w.z, 1)
	kernel.MatMul(w.part, w.N, kernel.RowMajor(w.ru, p), kernel.RowMajor(ds, w.N), n, w.N, p, w.f.P)
	addMat(w.db, w.part, w.since, n, w.N)
}

// fromBefore adds what reaches the chunk through the state before it, and takes ds there.
func (w *backScanner[T]) fromBefore(before, ds []T) {
	n, p, width := w.n, w.P, w.N
	w.carried(before)
	for t := range w.reach {
		e := w.begun[t]
		for j, v := range w.dy.Data[t*w.dy.Row:][:p] {
			w.v[t*p+j] = e * v
		}
		w.da[t] += kernel.Dot(w.f.P, w.v[t*p:], 1, w.off[t*p:], 1)
	}
	kernel.MatMul(w.part, width, kernel.RowMajor(w.v, p), kernel.RowMajor(before, width), n, width, p, w.f.P)
	addMat(w.dc, w.part, 0, w.reach, width)
	w.outer(w.v, w.c, 0, w.reach)
	decay, through := w.begun[n-1], !w.last && w.reach == n
	if through {
		w.da[n-1] += T(decay * kernel.Dot(w.f.State, ds, 1, before, 1))
	}
	for i, v := range w.sum[:p*width] {
		if through {
			ds[i] = T(decay*ds[i]) + v
		} else {
			ds[i] = v
		}
	}
}

// store writes the head's gradients of x, dt and la.
func (w *backScanner[T]) store(grad ssdGradients[T], h int, d T) {
	p, dx := w.P, w.rows(grad.X, h)
	sum := kernel.Negzero[T]()
	for t := w.n - 1; t >= 0; t-- {
		i := (w.row+t)*w.H + h
		for j, v := range w.dy.Data[t*w.dy.Row:][:p] {
			dx.Data[t*dx.Row+j] = T(w.dts[i]*w.du[t*p+j]) + T(d*v)
		}
		grad.DT[i] = kernel.Dot(w.f.P, w.du[t*p:], 1, w.x.Data[t*w.x.Row:], 1)
		sum += w.da[t]
		grad.LA[i] = sum
		if w.begins(t) {
			sum = kernel.Negzero[T]()
		}
	}
}

// addMat adds rows lo to hi of src (…,n) to those of dst, element by element.
func addMat[T libm.Float](dst kernel.Mat[T], src []T, lo, hi, n int) {
	for i := lo; i < hi; i++ {
		row := dst.Data[i*dst.Row:][:n]
		nn.Add(row, row, src[i*n:])
	}
}
