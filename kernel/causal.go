package kernel

import (
	"slices"

	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/reduce"
)

// side says which of the steps a row of a causal product sees.
type side bool

// The sides.
const (
	PastOnly   side = false // a query sees the keys up to its own step
	FutureOnly side = true  // a key sees the queries from its own step on
)

// Steps are those of a causal product: all the keys, and of the queries a run from First on.
type Steps struct {
	Keys, Queries, First int

	// Starts is, of every key, the step that its document begins at, ascending, where the first key is step Base: steps of different
	// documents do not see each other. nil: all are of one.
	Starts []int32
	Base   int
}

// Begin is the first key that a query sees; the query's step is counted among the keys.
func (s Steps) Begin(step int) int {
	if s.Starts == nil {
		return 0
	}
	return max(int(s.Starts[step])-s.Base, 0)
}

// sees is the run of steps that row t sees: keys, or queries counted from First.
func (s Steps) sees(t int, keep side) (lo, hi int) {
	if keep == PastOnly {
		return s.Begin(s.First + t), s.First + t + 1
	}
	lo, hi = max(t-s.First, 0), s.Queries
	if s.Starts != nil {
		next, _ := slices.BinarySearch(s.Starts, int32(s.Base+t+1)) // the first key of the document after
		hi = min(hi, next-s.First)
	}
	return lo, hi
}

// Causal is a matrix product from whose sums what causality, or the end of a document, forbids is absent.
//
//	c[t] = fold over i of w[t,i]·x[i], leaf i being step i mod T of the keys, or i mod Q of the queries
//
// Shapes:  past: w (Q,T), x (T,P) → c (Q,P). Future: w (T,n), x (n,P), n a multiple of Q → c (T,P).
// Reduces: the keys or n, by f. An absent leaf is −0, wherever the order has it.
func Causal[T libm.Float](f Fold, c, w, x Mat[T], p int, s Steps, keep side) {
	rows, period := s.Queries, s.Keys
	if keep == FutureOnly {
		rows, period = period, rows
	}
	for t := range rows {
		lo, hi := s.sees(t, keep)
		causalRow(f, c.Data[t*c.Row:][:p], w.Data[t*w.Row:], w.Col, x, lo, hi, period)
	}
}

// Within is a matrix product whose leaves from lo to hi are present.
//
//	c[i] = fold over t of w[i,t]·x[t]
//
// Shapes:  w (rows,n), x (n,p) → c (rows,p).
// Reduces: n, by f. An absent leaf is −0, wherever the order has it.
func Within[T libm.Float](f Fold, c, w, x Mat[T], rows, p, n, lo, hi int) {
	Need(f, n)
	for i := range rows {
		causalRow(f, c.Data[i*c.Row:][:p], w.Data[i*w.Row:], w.Col, x, lo, hi, n)
	}
}

// addRows adds n weighted rows of x to dst, one after another, each product fused into its sum or rounded first; four at a time, since dst
// then travels to memory and back a quarter as often.
func addRows[T libm.Float](dst, w []T, sw int, x []T, ld, n int, fma bool) {
	if d, ok := any(dst).([]float32); ok && vectorised && (fusing || !fma) && len(d) >= 8 && n > 0 {
		done := vectorRows(d, any(w).([]float32), sw, any(x).([]float32), ld, n, fma)
		dst, x = dst[done:], x[done:]
	}
	if len(dst) == 0 {
		return
	}
	if fma {
		for i := range n {
			wi := float32(w[i*sw])
			for j, v := range x[i*ld:][:len(dst)] {
				dst[j] = T(lowp.FMA32(wi, float32(v), float32(dst[j])))
			}
		}
		return
	}
	i := 0
	for ; i+4 <= n; i += 4 {
		w0, w1, w2, w3 := w[i*sw], w[(i+1)*sw], w[(i+2)*sw], w[(i+3)*sw]
		x0, x1 := x[i*ld:][:len(dst)], x[(i+1)*ld:][:len(dst)]
		x2, x3 := x[(i+2)*ld:][:len(dst)], x[(i+3)*ld:][:len(dst)]
		for j, v := range dst {
			v += T(w0 * x0[j])
			v += T(w1 * x1[j])
			v += T(w2 * x2[j])
			v += T(w3 * x3[j])
			dst[j] = v
		}
	}
	for ; i < n; i++ {
		wi := w[i*sw]
		for j, v := range x[i*ld:][:len(dst)] {
			dst[j] += T(wi * v)
		}
	}
}

// causalRow is one row of causal: leaves whose step lies outside lo to hi are absent.
func causalRow[T libm.Float](f Fold, dst, w []T, sw int, x Mat[T], lo, hi, period int) {
	fma := Fused[T](f)
	plain := fma || Plain[T](f)
	RunRows(f, dst, func(acc []T, step reduce.Step) {
		if plain && f.Perm == nil && step.Stride == 1 {
			presentRows(acc, w, sw, x, step.Start, step.Start+step.Count, lo, hi, period, fma)
			return
		}
		for c := range step.Count {
			i := f.Leaf(step.Start + c*step.Stride)
			switch at := i % period; {
			case at < lo || at >= hi:
			case plain:
				addRows(acc, w[i*sw:], sw, x.Data[i*x.Row:], x.Row, 1, fma)
			default:
				for j, v := range x.Data[i*x.Row:][:len(acc)] {
					acc[j] = MulAdd(f, acc[j], w[i*sw], v)
				}
			}
		}
	})
}

// presentRows adds those of the leaves from start to end that are present, in ascending order.
func presentRows[T libm.Float](acc, w []T, sw int, x Mat[T], start, end, lo, hi, period int, fma bool) {
	for base := start / period * period; base < end; base += period {
		from, to := max(start, base+lo), min(end, base+hi)
		if from < to {
			addRows(acc, w[from*sw:], sw, x.Data[from*x.Row:], x.Row, to-from, fma)
		}
	}
}

// Need demands a fold of n leaves.
func Need(f Fold, n int) {
	if f.N != n {
		panic("kernel: a fold of another length than what it adds")
	}
}
