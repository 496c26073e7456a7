package kernel

import (
	"sync"

	"firstbit/libm"
	"firstbit/reduce"
)

// RaceRows folds rows of len(dst) into dst by a raced f: add adds the leaves of a chain to an accumulator, which is to be written
// without being read where it is fresh. Threads run add at the same time.
func RaceRows[T libm.Float](f Fold, dst []T, add func(acc []T, s reduce.Step, fresh bool)) {
	r := &rowRace[T]{kind: f.Race, dst: dst, pieces: f.contributions(), add: add}
	r.moved.L = &r.mu
	r.sums = make([]*[]T, Racers(len(r.pieces)))
	if r.kind == Atomic {
		Fill(dst, Negzero[T]())
	}
	Deal(f.Race, len(r.pieces), r.take, r.end)
}

// contributions are the chains of f, each of which one thread adds up; of one chain of leaves that arrive one by one, runs.
func (f Fold) contributions() []reduce.Step {
	var chains []reduce.Step
	for _, s := range f.Steps {
		if s.Join == 0 {
			chains = append(chains, s)
		}
	}
	if len(chains) > 1 {
		return chains
	}
	all := chains[0]
	n := min(racePieces*Racers(all.Count), all.Count)
	runs := make([]reduce.Step, n)
	for i := range runs {
		lo, hi := i*all.Count/n, (i+1)*all.Count/n
		runs[i] = reduce.Step{Start: all.Start + lo*all.Stride, Stride: all.Stride, Count: hi - lo}
	}
	return runs
}

// rowRace is a RaceRows under way.
type rowRace[T libm.Float] struct {
	kind   Race
	dst    []T
	pieces []reduce.Step
	add    func(acc []T, s reduce.Step, fresh bool)
	sums   []*[]T // of each thread; nil: it has taken nothing

	mu    sync.Mutex
	moved sync.Cond
	added int // contributions, or threads' sums, in dst
}

// take adds a contribution to the sum of the thread, or, as it is, to dst.
func (r *rowRace[T]) take(thread, task int) {
	fresh := r.sums[thread] == nil
	if fresh {
		r.sums[thread] = Borrow[T](len(r.dst))
	}
	sum := *r.sums[thread]
	switch r.kind {
	case Atomic:
		r.add(sum, r.pieces[task], true)
		GiveWay()
		AddAtomic(r.dst, sum)
	case Turns:
		r.add(sum, r.pieces[task], true)
		r.mu.Lock()
		for r.added != task {
			r.moved.Wait()
		}
		r.meet(sum)
		r.moved.Broadcast()
		r.mu.Unlock()
	default:
		r.add(sum, r.pieces[task], fresh)
	}
}

// end adds the sum of a thread that has one.
func (r *rowRace[T]) end(thread int) {
	sum := r.sums[thread]
	if sum == nil {
		return
	}
	if r.kind == Local || r.kind == Steal {
		r.mu.Lock()
		r.meet(*sum)
		r.mu.Unlock()
	}
	GiveBack(sum)
}

// meet adds to dst, which the first writes.
func (r *rowRace[T]) meet(sum []T) {
	if r.added == 0 {
		copy(r.dst, sum)
	} else {
		for j, v := range sum[:len(r.dst)] {
			r.dst[j] += v
		}
	}
	r.added++
}

// raceRowsAt is SumRowsAt by a raced fold.
func raceRowsAt[T libm.Float](f Fold, dst, src []T, ld int, index []int32) {
	RaceRows(f, dst, func(acc []T, s reduce.Step, fresh bool) {
		if fresh {
			Fill(acc, Negzero[T]())
		}
		for c := range s.Count {
			i := f.Leaf(s.Start + c*s.Stride)
			if index != nil {
				i = int(index[i])
			}
			addRow(f, acc, src[i*ld:][:len(acc)])
		}
	})
}

// raceMatMul is MatMul by a raced fold: each contribution is the product of a run of k.
func raceMatMul[T libm.Float](c []T, a, b Mat[T], m, n int, f Fold) {
	RaceRows(f, c[:m*n], func(acc []T, s reduce.Step, fresh bool) {
		run := f
		run.Program, run.Race = reduce.Seq.Program(s.Count), Drawn
		a := Mat[T]{a.Data[s.Start*a.Col:], a.Row, a.Col * s.Stride}
		b := Mat[T]{b.Data[s.Start*b.Row:], b.Row * s.Stride, b.Col}
		if fresh {
			multiply(acc, n, a, b, m, n, s.Count, run, false)
			return
		}
		if sum, ok := any(acc).([]float32); ok && vectorised && m*n >= vectorLeast && Plain[T](run) {
			vectorMatMul(sum, n, any(a).(Mat[float32]), any(b).(Mat[float32]), m, n, s.Count, run, false, true)
			return
		}
		part := Borrow[T](m * n)
		defer GiveBack(part)
		multiply(*part, n, a, b, m, n, s.Count, run, false)
		for j, v := range *part {
			acc[j] += v
		}
	})
}

// scatterRows is the number of rows that a thread takes at a time.
const scatterRows = 16

// RaceScatter adds rows of d elements to those of dst that they belong to, as threads do it that share the rows: dst[to(i)] gets row(i),
// of n in all; none where to is negative.
func RaceScatter[T libm.Float](way Race, dst []T, d, n int, to func(i int) int, row func(i int) []T) {
	add := func(sum []T, lo, hi int) {
		for i := lo; i < hi; i++ {
			if at := to(i); at >= 0 {
				sum := sum[at*d:][:d]
				for j, v := range row(i)[:d] {
					sum[j] += v
				}
			}
		}
	}
	if small := n*d < raceLeast; small || way == Atomic {
		Fill(dst, Negzero[T]())
		if small {
			add(dst, 0, n)
			return
		}
		Deal(way, (n+scatterRows-1)/scatterRows, func(_, task int) {
			for i := task * scatterRows; i < min((task+1)*scatterRows, n); i++ {
				if at := to(i); at >= 0 {
					AddAtomic(dst[at*d:][:d], row(i))
				}
				if i%(scatterRows/2) == 0 {
					GiveWay()
				}
			}
		}, func(int) {})
		return
	}
	RaceRows(Fold{Program: reduce.Seq.Program(n), Race: way}, dst, func(acc []T, s reduce.Step, fresh bool) {
		if fresh {
			Fill(acc, Negzero[T]())
		}
		add(acc, s.Start, s.Start+s.Count)
	})
}
