package kernel

import (
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/reduce"
)

// run is the stack machine: step adds leaf i to an accumulator.
func run[T libm.Float](f Fold, step func(acc T, i int) T) T {
	if f.N == 0 {
		return Negzero[T]()
	}
	var buf [16]T
	stack := buf[:0]
	for _, s := range f.Steps {
		from, sum := len(stack), Negzero[T]()
		switch {
		case s.Join > 0:
			from -= s.Join
			sum = joinAll(f, s, stack[from:])
		case s.By != reduce.Rounded:
			for c := range s.Count {
				stack = append(stack, step(sum, f.Leaf(s.Start+c*s.Stride)))
			}
			sum = joinAll(f, s, stack[from:])
		default:
			for c := range s.Count {
				leaf := f.Leaf(s.Start + c*s.Stride)
				if c > 0 && f.Wire != lowp.FP32 {
					sum = hop(f, s, sum, leaf, step)
				} else {
					sum = step(sum, leaf)
				}
			}
		}
		stack = append(stack[:from], stored(f, s, sum))
	}
	return stack[0]
}

// hop is one addition of a chain where what comes from elsewhere is rounded: each leaf, or the running sum.
func hop[T libm.Float](f Fold, s reduce.Step, sum T, leaf int, step func(acc T, i int) T) T {
	if s.Right {
		return Join(f, sum, sent(f, step(Negzero[T](), leaf)))
	}
	return step(sent(f, sum), leaf)
}

// joinAll is the sum by a step of the partial sums that it takes, which it may change.
func joinAll[T libm.Float](f Fold, s reduce.Step, x []T) T {
	if f.Wire != lowp.FP32 {
		many := len(x) > 2 || s.By != reduce.Rounded
		for i, v := range x {
			if many || s.Right == (i == 1) {
				x[i] = sent(f, v)
			}
		}
	}
	if len(x) == 2 && s.By == reduce.Rounded {
		return Join(f, x[0], x[1])
	}
	return reduce.AddBy(s.By, x, f.Acc)
}

// sent is a partial sum as it comes from elsewhere.
func sent[T libm.Float](f Fold, v T) T { return rounded(v, f.Wire) }

// stored is the sum of a step as it is put down.
func stored[T libm.Float](f Fold, s reduce.Step, v T) T {
	if s.Stored {
		return rounded(v, f.Store)
	}
	return v
}

func rounded[T libm.Float](v T, to lowp.Format) T {
	if x, ok := any(v).(float32); ok && to != lowp.FP32 {
		return T(to.Round(x))
	}
	return v
}

// RunRows is the stack machine on rows as long as dst: chain adds the leaves of a step to an accumulator.
func RunRows[T libm.Float](f Fold, dst []T, chain func(acc []T, step reduce.Step)) {
	if f.N == 0 {
		Fill(dst, Negzero[T]())
		return
	}
	stack := Borrow[T](f.Depth * len(dst))
	defer GiveBack(stack)
	if !f.simple() {
		r := rows[T]{f: f, n: len(dst), stack: (*stack)[:0]}
		for _, step := range f.Steps {
			r.step(step, chain)
		}
		copy(dst, r.stack)
		return
	}
	n, top := len(dst), 0 // the end of the last row
	for _, step := range f.Steps {
		if step.Join > 0 {
			joinRow(f, (*stack)[top-2*n:top-n], (*stack)[top-n:top])
			top -= n
			continue
		}
		acc := (*stack)[top : top+n]
		Fill(acc, Negzero[T]())
		chain(acc, step)
		top += n
	}
	copy(dst, *stack)
}

// joinRow adds one row of partial sums to another.
func joinRow[T libm.Float](f Fold, a, b []T) {
	if adds[T](f) {
		for j, v := range b {
			a[j] += v
		}
		return
	}
	for j, v := range b {
		a[j] = Join(f, a[j], v)
	}
}

// rows is the stack machine on rows of n partial sums. What adds leaves is passed on and not kept, so that it needs no place in the heap.
type rows[T libm.Float] struct {
	f     Fold
	n     int
	stack []T
}

// push is a new row with the leaves of a step.
func (r *rows[T]) push(step reduce.Step, chain func(acc []T, step reduce.Step)) []T {
	r.stack = r.stack[:len(r.stack)+r.n]
	acc := r.stack[len(r.stack)-r.n:]
	Fill(acc, Negzero[T]())
	chain(acc, step)
	return acc
}

// step is a step of a fold that sends or stores, or adds more than two at once. What such a sum needs one by one is a row each.
func (r *rows[T]) step(step reduce.Step, chain func(acc []T, step reduce.Step)) {
	switch {
	case step.Join > 0:
		r.join(step, step.Join)
	case step.By != reduce.Rounded:
		for c := range step.Count {
			r.push(one(step, c), chain)
		}
		r.join(step, step.Count)
	case r.f.Wire == lowp.FP32:
		r.push(step, chain)
	default:
		r.hops(step, chain)
	}
	if step.Stored && r.f.Store != lowp.FP32 {
		for j, v := range r.stack[len(r.stack)-r.n:] {
			r.stack[len(r.stack)-r.n+j] = rounded(v, r.f.Store)
		}
	}
}

// join replaces so many rows by their sum.
func (r *rows[T]) join(step reduce.Step, many int) {
	base := r.stack[len(r.stack)-many*r.n:]
	column := Borrow[T](many)
	defer GiveBack(column)
	for j := range r.n {
		for i := range many {
			(*column)[i] = base[i*r.n+j]
		}
		base[j] = joinAll(r.f, step, *column)
	}
	r.stack = r.stack[:len(r.stack)-(many-1)*r.n]
}

// hops is a chain where what comes from elsewhere is rounded: each leaf, or the running sum.
func (r *rows[T]) hops(step reduce.Step, chain func(acc []T, step reduce.Step)) {
	acc := r.push(one(step, 0), chain)
	leaf := Borrow[T](r.n)
	defer GiveBack(leaf)
	for c := 1; c < step.Count; c++ {
		if !step.Right {
			for j, v := range acc {
				acc[j] = sent(r.f, v)
			}
			chain(acc, one(step, c))
			continue
		}
		Fill(*leaf, Negzero[T]())
		chain(*leaf, one(step, c))
		for j, v := range *leaf {
			acc[j] = Join(r.f, acc[j], sent(r.f, v))
		}
	}
}

// one is a chain of leaf c of a step alone.
func one(s reduce.Step, c int) reduce.Step {
	return reduce.Step{Start: s.Start + c*s.Stride, Stride: 1, Count: 1}
}
