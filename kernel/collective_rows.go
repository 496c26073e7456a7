package kernel

import (
	"runtime"
	"sync"

	"firstbit/libm"
	"firstbit/lowp"
)

// row is what the walk's pieces add of member m.
func (w *walkMembers[T]) row(m int) []T { return w.in[m][w.at:][:w.width] }

// slots are n partial sums of the walk's width, not cleared.
func (w *walkMembers[T]) slots(n int) []T {
	if w.stack != nil && cap(*w.stack) < n*w.width {
		giveBack(w.stack)
		w.stack = nil
	}
	if w.stack == nil {
		w.stack = borrow[T](n * w.width)
	}
	return (*w.stack)[:n*w.width]
}

func (w *walkMembers[T]) end() {
	if w.stack != nil {
		giveBack(w.stack)
	}
}

// steps is the stack machine on rows of the walk's width; the sum is left in the lowest slot.
func (w *walkMembers[T]) steps(slots []T, f Fold) {
	n := w.width
	slot := func(i int) []T { return slots[i*n:][:n] }
	spare, top := slot(f.Depth), 0
	var rows [rowsAtOnce][]T
	for i := 0; i < len(f.Steps); i++ {
		s := f.Steps[i]
		if s.Join {
			top--
			addPartial(f, slot(top-1), slot(top))
			continue
		}
		// A chain of one value that is joined next: −0 + x = x, so the value is added where it would be joined.
		acc := slot(top)
		if s.Count == 1 && i+1 < len(f.Steps) && f.Steps[i+1].Join {
			acc = slot(top - 1)
			i++
		} else {
			fill(acc, Negzero[T]())
			top++
		}
		for c := 0; c < s.Count; c += rowsAtOnce {
			k := min(rowsAtOnce, s.Count-c)
			for j := range k {
				rows[j] = w.row(f.leaf(s.Start + (c+j)*s.Stride))
			}
			addRowsTo(f, acc, spare, rows[:k], 0)
		}
	}
}

// addPartial adds one partial sum to another.
func addPartial[T libm.Float](f Fold, a, b []T) {
	b = b[:len(a)]
	for j := range a {
		a[j] += b[j]
	}
	roundTo(f, a)
}

// addRowsTo adds the elements of rows from lo on to acc, one row after another.
func addRowsTo[T libm.Float](f Fold, acc, spare []T, rows [][]T, lo int) {
	switch {
	case narrow[T](f):
		for _, r := range rows {
			r = r[lo:][:len(acc)]
			leaf := spare[:len(acc)]
			copy(leaf, r)
			roundTo(f, leaf)
			addPartial(f, acc, leaf)
		}
	case len(rows) == rowsAtOnce:
		a, b, c, d := rows[0][lo:][:len(acc)], rows[1][lo:][:len(acc)], rows[2][lo:][:len(acc)], rows[3][lo:][:len(acc)]
		for j := range acc {
			acc[j] = acc[j] + a[j] + b[j] + c[j] + d[j]
		}
	default:
		for _, r := range rows {
			r = r[lo:][:len(acc)]
			for j := range acc {
				acc[j] += r[j]
			}
		}
	}
}

// narrow tells whether partial sums are rounded further than to T.
func narrow[T libm.Float](f Fold) bool {
	var z T
	_, is32 := any(z).(float32)
	return is32 && f.Acc != lowp.FP32
}

// roundTo rounds partial sums to the format in which the fold holds them.
func roundTo[T libm.Float](f Fold, x []T) {
	if x, ok := any(x).([]float32); ok && f.Acc != lowp.FP32 {
		f.Acc.RoundSlice(x)
	}
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
