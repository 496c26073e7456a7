package kernel

import "sync"

// The vector tile: rows of a that meet columns of b at a time.
const (
	vectorM, vectorN = 6, 16
	vectorTile       = vectorM * vectorN
)

// vectorFlops is parallelFlops for the vector tile, which is through with as many sooner.
const vectorFlops = 1 << 19

// tiles is one MatMul under way on vector tiles: MatMul's bits, sooner. Lanes are columns of
// c, so each element has its own sum, in the order of its fold.
//
// Operands are read where they lie. Packed are columns of b that are not side by side, the
// last columns and the last rows where they fill no tile, and what a permutation visits.
type tiles struct {
	c       []float32
	ldc     int
	a, b    Mat[float32]
	m, n, k int
	f       Fold
	packed  int        // the first column of b that is packed
	panels  *[]float32 // b from there: for each vectorN columns, k·vectorN elements
}

var tilesPool = sync.Pool{New: func() any { return new(tiles) }}

// vectorMatMul is MatMul on vector tiles.
func vectorMatMul(c []float32, ldc int, a, b Mat[float32], m, n, k int, f Fold) {
	// The tiles check no bounds; these are the last elements they touch.
	_, _, _ = c[(m-1)*ldc+n-1], a.Data[(m-1)*a.Row+(k-1)*a.Col], b.Data[(k-1)*b.Row+(n-1)*b.Col]
	t := tilesPool.Get().(*tiles)
	t.c, t.ldc, t.a, t.b, t.m, t.n, t.k, t.f = c, ldc, a, b, m, n, k, f
	t.packB()
	blocks := (m + vectorM - 1) / vectorM
	if m*n*k < vectorFlops {
		t.run(0, blocks)
	} else {
		parallel(t, blocks)
	}
	if t.panels != nil {
		giveBack(t.panels)
	}
	*t = tiles{}
	tilesPool.Put(t)
}

// packB lays down what of b cannot be read in place.
func (t *tiles) packB() {
	if t.b.Col == 1 && t.f.Perm == nil {
		t.packed = t.n / vectorN * vectorN
	}
	if t.packed == t.n {
		return
	}
	size := t.k * vectorN
	t.panels = borrow[float32]((t.n - t.packed + vectorN - 1) / vectorN * size)
	for j := t.packed; j < t.n; j += vectorN {
		panel := (*t.panels)[(j-t.packed)/vectorN*size:][:size]
		for s := range vectorN {
			if j+s < t.n {
				t.pack(panel[s:], vectorN, t.b.Data[(j+s)*t.b.Col:], t.b.Row)
			} else {
				t.pack(panel[s:], vectorN, zero[:], 0)
			}
		}
	}
}

// zero stands for a column past the end of b; what it makes is not stored.
var zero [1]float32

// pack lays the k elements of a row of a or a column of b down, by position in the fold.
func (t *tiles) pack(dst []float32, step int, src []float32, stride int) {
	if t.f.Perm != nil {
		for pos, leaf := range t.f.Perm {
			dst[pos*step] = src[int(leaf)*stride]
		}
		return
	}
	for pos := range t.k {
		dst[pos*step] = src[pos*stride]
	}
}

// run computes row blocks lo to hi.
func (t *tiles) run(lo, hi int) {
	rows := borrow[float32](t.k * vectorM)
	stack := borrow[float32]((1 + t.f.Depth) * vectorTile)
	edge := (*stack)[:vectorTile]
	for i := lo * vectorM; i < min(hi*vectorM, t.m); i += vectorM {
		w := walk{stack: (*stack)[vectorTile:]}
		w.a, w.rowA, w.stepA = t.rows(i, *rows)
		for j := 0; j < t.n; j += vectorN {
			w.b, w.stepB = t.columns(j)
			w.c, w.ldc = t.c[i*t.ldc+j:], t.ldc
			if i+vectorM <= t.m && j+vectorN <= t.n {
				w.fold(t.f)
				continue
			}
			w.c, w.ldc = edge, vectorN
			w.fold(t.f)
			for r := range min(vectorM, t.m-i) {
				copy(t.c[(i+r)*t.ldc+j:][:min(vectorN, t.n-j)], edge[r*vectorN:])
			}
		}
	}
	giveBack(rows)
	giveBack(stack)
}

// rows are the vectorM rows of a from i, with the distances of rows and of steps; past the
// end they repeat the last.
func (t *tiles) rows(i int, buf []float32) (a []float32, row, step int) {
	if i+vectorM <= t.m && t.f.Perm == nil {
		return t.a.Data[i*t.a.Row:], t.a.Row, t.a.Col
	}
	for r := range vectorM {
		t.pack(buf[r:], vectorM, t.a.Data[min(i+r, t.m-1)*t.a.Row:], t.a.Col)
	}
	return buf, 1, vectorM
}

// columns are the vectorN columns of b from j, with the distance of steps.
func (t *tiles) columns(j int) (b []float32, step int) {
	if j < t.packed {
		return t.b.Data[j:], t.b.Row
	}
	return (*t.panels)[(j-t.packed)*t.k:], vectorN
}

// walk is one tile of c with the rows of a and the columns of b that make it.
type walk struct {
	a, b, c     []float32
	rowA, stepA int
	stepB, ldc  int
	stack       []float32 // partial sums; the lowest is in c itself
}

// fold runs the steps of the fold on the tile. A join that follows its chain is made in registers.
func (w *walk) fold(f Fold) {
	if f.InOrder {
		tile6x16(&w.c[0], w.ldc, &w.a[0], w.rowA, w.stepA, &w.b[0], w.stepB, f.N, false)
		return
	}
	top := 0
	for i := 0; i < len(f.Steps); i++ {
		s := f.Steps[i]
		if s.Join {
			top--
			c, ldc := w.slot(top - 1)
			from, _ := w.slot(top)
			addTile6x16(c, ldc, from)
			continue
		}
		join := i+1 < len(f.Steps) && f.Steps[i+1].Join
		if join {
			i++
			top--
		}
		c, ldc := w.slot(top)
		tile6x16(c, ldc, &w.a[s.Start*w.stepA], w.rowA, s.Stride*w.stepA, &w.b[s.Start*w.stepB], s.Stride*w.stepB, s.Count, join)
		top++
	}
}

// slot is a place on the stack of partial sums, with the distance of its rows.
func (w *walk) slot(i int) (c *float32, ldc int) {
	if i == 0 {
		return &w.c[0], w.ldc
	}
	return &w.stack[i*vectorTile], vectorN
}
