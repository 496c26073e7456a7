package kernel

import (
	"runtime"
	"sync"

	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/reduce"
)

// row is what the pass's pieces add of member m.
func (w *ringPass[T]) row(m int) []T { return w.in[m][w.at:][:w.width] }

// slots are n partial sums of the pass's width, not cleared.
func (w *ringPass[T]) slots(n int) []T {
	if w.stack != nil && cap(*w.stack) < n*w.width {
		GiveBack(w.stack)
		w.stack = nil
	}
	if w.stack == nil {
		w.stack = Borrow[T](n * w.width)
	}
	return (*w.stack)[:n*w.width]
}

func (w *ringPass[T]) end() {
	if w.stack != nil {
		GiveBack(w.stack)
	}
}

// A how says where a sum of rows starts and goes.
type how int

const (
	extend how = iota // the partial sum goes on
	begin             // it starts at −0
	join              // what starts at −0 is added to it at the end
)

// steps is the stack machine on rows of the pass's width; the sum is left in the lowest slot.
func (w *ringPass[T]) steps(slots []T, f Fold) {
	n := w.width
	slot := func(i int) []T { return slots[i*n:][:n] }
	spare, top := slot(f.Depth), 0
	var rows [rowsAtOnce][]T
	for i := 0; i < len(f.Steps); {
		if f.Steps[i].Join > 0 {
			top--
			rows[0] = slot(top)
			addLeaves(f, slot(top-1), spare, rows[:1], 0, extend)
			i++
			continue
		}
		k, to := 0, begin
		take := func(s reduce.Step) {
			for c := range s.Count {
				if k == rowsAtOnce {
					addLeaves(f, slot(top), spare, rows[:k], 0, to)
					k, to = 0, extend
				}
				rows[k] = w.row(f.Leaf(s.Start + c*s.Stride))
				k++
			}
		}
		take(f.Steps[i])
		// A chain of one value that is joined next lengthens this one: −0 + x = x.
		for i++; i+1 < len(f.Steps) && f.Steps[i].Count == 1 && f.Steps[i+1].Join > 0; i += 2 {
			take(f.Steps[i])
		}
		if to == begin && top > 0 && i < len(f.Steps) && f.Steps[i].Join > 0 {
			addLeaves(f, slot(top-1), spare, rows[:k], 0, join)
			i++
			continue
		}
		addLeaves(f, slot(top), spare, rows[:k], 0, to)
		top++
	}
}

// unusual is a fold that sends, stores, adds more than two at once, or adds in fp64.
func (w *ringPass[T]) unusual(dst []T, f Fold) {
	if f.Acc == lowp.FP64 {
		w.wide(dst, f)
		return
	}
	RunRows(f, dst, func(acc []T, s reduce.Step) {
		for c := range s.Count {
			addRow(f, acc, w.row(f.Leaf(s.Start+c*s.Stride)))
		}
	})
}

// wide adds in float64 and rounds the result alone.
func (w *ringPass[T]) wide(dst []T, f Fold) {
	sums := Borrow[float64](len(dst))
	defer GiveBack(sums)
	RunRows(f, *sums, func(acc []float64, s reduce.Step) {
		for c := range s.Count {
			for j, v := range w.row(f.Leaf(s.Start + c*s.Stride))[:len(acc)] {
				acc[j] += float64(v)
			}
		}
	})
	for j, v := range *sums {
		dst[j] = T(v)
	}
}

// addLeaves adds the elements of rows from lo on to acc, one row after another. spare is room for as many.
func addLeaves[T libm.Float](f Fold, acc, spare []T, rows [][]T, lo int, to how) {
	done := 0
	if acc, ok := any(acc).([]float32); ok && vectorised && len(acc) >= 8 && (f.Acc == lowp.FP32 || f.Acc == lowp.BF16) {
		rows, _ := any(rows).([][]float32)
		for _, r := range rows {
			_ = r[lo+len(acc)-1] // the vectors check no bounds
		}
		done = len(acc) &^ 7
		if f.Acc == lowp.FP32 {
			sumRows32(&acc[0], &rows[0], len(rows), lo, done, int(to))
		} else {
			sumRowsBF16(&acc[0], &rows[0], len(rows), lo, done, int(to))
		}
	}
	if done < len(acc) {
		addLeavesPlain(f, acc[done:], spare[:len(acc)-done], rows, lo+done, to)
	}
}

// addLeavesPlain is what the vectors do, in plain Go.
func addLeavesPlain[T libm.Float](f Fold, acc, spare []T, rows [][]T, lo int, to how) {
	sum := acc
	if to == join {
		sum = spare
	}
	if to != extend {
		Fill(sum, Negzero[T]())
	}
	plain := !narrow[T](f)
	for ; plain && len(rows) >= 4; rows = rows[4:] {
		a, b, c, d := rows[0][lo:][:len(sum)], rows[1][lo:][:len(sum)], rows[2][lo:][:len(sum)], rows[3][lo:][:len(sum)]
		for j := range sum {
			sum[j] = sum[j] + a[j] + b[j] + c[j] + d[j]
		}
	}
	for _, r := range rows {
		addLeaf(f, sum, r[lo:][:len(sum)])
	}
	if to == join {
		addLeaf(f, acc, sum)
	}
}

func addLeaf[T libm.Float](f Fold, acc, row []T) {
	if narrow[T](f) {
		for j, v := range row {
			acc[j] = Join(f, acc[j], enter(f, v))
		}
		return
	}
	for j, v := range row {
		acc[j] += v
	}
}

// narrow tells whether partial sums are rounded further than to T.
func narrow[T libm.Float](f Fold) bool {
	var z T
	_, is32 := any(z).(float32)
	return is32 && f.Acc != lowp.FP32
}

func processors() int { return runtime.GOMAXPROCS(0) }

var members32, members64 sync.Pool

func membersPool[T libm.Float]() *sync.Pool {
	var z T
	if _, wide := any(z).(float64); wide {
		return &members64
	}
	return &members32
}

func takeMembers[T libm.Float]() *members[T] {
	if s, _ := membersPool[T]().Get().(*members[T]); s != nil {
		return s
	}
	return new(members[T])
}

// release gives the task back, forgetting the caller's slices.
func (s *members[T]) release() {
	*s = members[T]{starts: s.starts[:0]}
	membersPool[T]().Put(s)
}
