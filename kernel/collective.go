package kernel

import (
	"slices"

	"firstbit/libm"
)

// Piece is a run of a message's elements that are added over the members by one Fold.
type Piece[T libm.Float] struct {
	Dst  []T // their sums; may be the same elements of a member's own slice
	At   int // where they begin in every member's slice
	Fold Fold
}

const (
	// memberTile is the number of elements added at a time: partial sums stay in the first cache while the members pass.
	memberTile = 1024
	// rowsAtOnce is the number of members added with one pass over the partial sums.
	rowsAtOnce = 8
)

// SumMembers is the arithmetic of a collective that adds: dst[j] is the fold over the members m of in[m][at+j].
//
// Shapes:  dst (n), in (members, at least at+n).
// Reduces: members.
func SumMembers[T libm.Float](f Fold, dst []T, in [][]T, at int) {
	s := takeMembers[T]()
	s.one[0] = Piece[T]{dst, at, f}
	s.pieces = s.one[:]
	s.sum(in)
}

// ReduceMembers sums every piece over the members: what SumMembers does piece by piece, in one pass over the
// members where it can. Each sum that is held in a narrow format is rounded at every addition.
//
// Pieces that follow one another and whose orders are one ring, begun further and further along it, are added together:
// once around for all of them, and around again up to where the last began.
//
// Shapes:  pieces (any), in (members, at least as long as the pieces reach).
// Reduces: members.
func ReduceMembers[T libm.Float](pieces []Piece[T], in [][]T) {
	s := takeMembers[T]()
	s.pieces = pieces
	s.sum(in)
}

// members is one reduction under way. Its units are tiles of the pieces' elements, laid end to end.
type members[T libm.Float] struct {
	pieces []Piece[T]
	one    [1]Piece[T]
	starts []int // where each piece begins, and where the last ends
	in     [][]T
	tile   int
}

func (s *members[T]) sum(in [][]T) {
	s.in = in
	end, total, starts := 0, 0, s.starts[:0]
	for i := range s.pieces {
		p := &s.pieces[i]
		if p.Fold.N != len(in) {
			panic("kernel: a fold over another number of members")
		}
		starts = append(starts, total)
		total += len(p.Dst)
		end = max(end, p.At+len(p.Dst))
	}
	s.starts = append(starts, total)
	for _, x := range in {
		if len(x) < end {
			panic("kernel: a member's slice is shorter than the pieces reach")
		}
	}
	s.tile = memberTile
	if total*len(in) < parallelFlops {
		s.run(0, (total+s.tile-1)/s.tile)
	} else {
		s.tile = min(s.tile, (total/processors()+16)&^15)
		parallel(s, (total+s.tile-1)/s.tile)
	}
	s.release()
}

// run sums tiles lo to hi.
func (s *members[T]) run(lo, hi int) {
	w := ringPass[T]{in: s.in}
	for t := lo; t < hi; t++ {
		first, last := t*s.tile, min((t+1)*s.tile, s.starts[len(s.pieces)])
		i, found := slices.BinarySearch(s.starts, first)
		if !found {
			i--
		}
		for ; i < len(s.pieces) && s.starts[i] < last; i++ {
			p := s.pieces[i]
			a, b := max(first-s.starts[i], 0), min(last-s.starts[i], len(p.Dst))
			if a < b {
				w.add(Piece[T]{p.Dst[a:b], p.At + a, p.Fold})
			}
		}
		w.flush()
	}
	w.end()
}

// ringPass sums pieces that follow one another and share a ring, all in one pass around it.
type ringPass[T libm.Float] struct {
	in     [][]T
	pieces []Piece[T]
	from   []int // how far along the first piece's ring each begins: never less than the one before
	ends   []int // where each ends in acc
	at     int   // of the first piece
	stack  *[]T
	width  int // elements of a partial sum: those of all pieces
}

// add takes a piece into the pass under way, or ends that one first.
func (w *ringPass[T]) add(p Piece[T]) {
	from := 0
	if n := len(w.pieces); n > 0 {
		last := &w.pieces[n-1]
		from = w.along(p.Fold, w.from[n-1])
		if from < w.from[n-1] || last.At+len(last.Dst) != p.At || last.Fold.Acc != p.Fold.Acc || !p.Fold.simple() || !last.Fold.simple() {
			w.flush()
			from = 0
		}
	}
	if len(w.pieces) == 0 {
		w.at, w.width = p.At, 0
	}
	w.width += len(p.Dst)
	w.pieces = append(w.pieces, p)
	w.from = append(w.from, from)
	w.ends = append(w.ends, w.width)
}

// along is how far along the first piece's chain that of f begins, if it is the same one around, and not before guess;
// else −1.
func (w *ringPass[T]) along(f Fold, guess int) int {
	first := w.pieces[0].Fold
	if f.Program == first.Program {
		return 0
	}
	if len(f.Steps) != 1 || len(first.Steps) != 1 || f.N == 0 {
		return -1
	}
	n := f.N
	if ringed(f) && ringed(first) {
		return (f.First - first.First + n) % n
	}
	if f.Perm == nil || first.Perm == nil {
		return -1
	}
	k := guess
	for ; k < n && first.Perm[k] != f.Perm[0]; k++ {
	}
	if k == n || !slices.Equal(first.Perm[k:], f.Perm[:n-k]) || !slices.Equal(first.Perm[:k], f.Perm[n-k:]) {
		return -1
	}
	return k
}

// ringed tells whether the fold is one chain around 0, 1, …, N−1 from First.
func ringed(f Fold) bool { return f.InOrder || f.First > 0 }

// flush ends the pass: the pieces are summed and forgotten.
func (w *ringPass[T]) flush() {
	if len(w.pieces) == 0 {
		return
	}
	f := w.pieces[0].Fold
	sums := w.slots(f.Depth + 1)
	switch {
	case f.N == 0:
		Fill(sums[:w.width], Negzero[T]())
	case !f.simple():
		w.unusual(sums[:w.width], f)
	case len(f.Steps) == 1:
		w.around(sums[:w.width], sums[w.width:][:w.width], f)
	default:
		w.steps(sums, f)
	}
	lo := 0
	for i := range w.pieces {
		copy(w.pieces[i].Dst, sums[lo:w.ends[i]])
		lo = w.ends[i]
	}
	w.pieces, w.from, w.ends = w.pieces[:0], w.from[:0], w.ends[:0]
}

// around goes along the ring once for the pieces that have begun, and again for those that begin further along.
func (w *ringPass[T]) around(acc, spare []T, f Fold) {
	Fill(acc, Negzero[T]())
	step := f.Steps[0]
	row := func(i int) []T { return w.row(f.Leaf(step.Start + i*step.Stride)) }
	var rows [rowsAtOnce][]T
	var to [rowsAtOnce]int
	last := w.from[len(w.from)-1]
	for pass := range 2 {
		begun, reach := 0, 0 // pieces that have begun, and the elements of them
		for i := 0; i < f.N; i += rowsAtOnce {
			if pass == 1 && i >= last {
				break
			}
			k := min(rowsAtOnce, f.N-i)
			for j := range k {
				for begun < len(w.from) && w.from[begun] <= i+j {
					reach = w.ends[begun]
					begun++
				}
				rows[j], to[j] = row(i+j), reach
			}
			if pass == 0 {
				addBegun(f, acc, spare, rows[:k], to[:k])
			} else {
				addOthers(f, acc, spare, rows[:k], to[:k])
			}
		}
	}
}

// addBegun adds row j to the elements up to to[j]; to does not fall.
func addBegun[T libm.Float](f Fold, acc, spare []T, rows [][]T, to []int) {
	all := to[0]
	addLeaves(f, acc[:all], spare, rows, 0, extend)
	for j, hi := range to {
		if hi > all {
			addLeaves(f, acc[all:hi], spare, rows[j:j+1], all, extend)
		}
	}
}

// addOthers adds row j to the elements from to[j] on.
func addOthers[T libm.Float](f Fold, acc, spare []T, rows [][]T, to []int) {
	all := to[len(to)-1]
	for j, lo := range to {
		if lo < all {
			addLeaves(f, acc[lo:all], spare, rows[j:j+1], lo, extend)
		}
	}
	addLeaves(f, acc[all:], spare, rows, all, extend)
}
