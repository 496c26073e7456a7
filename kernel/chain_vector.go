package kernel

import (
	"sync"

	"firstbit/reduce"
)

// The vector tile: rows of a that meet columns of b at a time.
const (
	vectorM, vectorN = 6, 16
	vectorTile       = vectorM * vectorN
)

const (
	// vectorFlops is parallelFlops for vector tiles, which are through with as many sooner.
	vectorFlops = 1 << 20
	// vectorLeast is the number of elements of c below which a tile would stay too empty to pay.
	vectorLeast = 16
)

// tiles is one MatMul under way on vector tiles: MatMul's bits, sooner. Lanes are columns of
// c, so each element has its own sum, in the order of its fold.
//
// The last tiles of a row or column of tiles reach back over the ones before, and what they
// make again is not stored. Only a matrix smaller than a tile is padded.
type tiles struct {
	c       []float32
	ldc     int
	a, b    Mat[float32]
	m, n, k int
	f       Fold
	onto    bool       // c is added to, not written, by a fold in order
	packsA  bool       // rows of a are packed as they are needed
	panels  *[]float32 // b, packed: for each vectorN columns, k·vectorN elements; nil: b is read where it lies
}

var tilesPool = sync.Pool{New: func() any { return new(tiles) }}

// vectorMatMul is multiply on vector tiles; onto adds to c, for a fold in order.
func vectorMatMul(c []float32, ldc int, a, b Mat[float32], m, n, k int, f Fold, threads, onto bool) {
	// The tiles check no bounds; these are the last elements they touch.
	_, _, _ = c[(m-1)*ldc+n-1], a.Data[(m-1)*a.Row+(k-1)*a.Col], b.Data[(k-1)*b.Row+(n-1)*b.Col]
	t := tilesPool.Get().(*tiles)
	t.c, t.ldc, t.a, t.b, t.m, t.n, t.k, t.f, t.onto = c, ldc, a, b, m, n, k, f, onto
	t.pack()
	blocks := (m + vectorM - 1) / vectorM
	if !threads || m*n*k < vectorFlops {
		t.run(0, blocks)
	} else {
		parallel(t, blocks)
	}
	if t.panels != nil {
		GiveBack(t.panels)
	}
	*t = tiles{}
	tilesPool.Put(t)
}

// run computes row blocks lo to hi.
func (t *tiles) run(lo, hi int) {
	var edge [vectorTile]float32
	var w tileSum
	var rows []float32
	if t.packsA {
		lent := Borrow[float32](t.k * vectorM)
		defer GiveBack(lent)
		rows = *lent
	}
	if !t.f.InOrder {
		lent := Borrow[float32](t.f.Depth * vectorTile)
		defer GiveBack(lent)
		w.stack = *lent
	}
	for i := lo * vectorM; i < min(hi*vectorM, t.m); i += vectorM {
		top := max(0, min(i, t.m-vectorM))
		w.a, w.rowA, w.stepA = t.rows(top, rows)
		for j := 0; j < t.n; j += vectorN {
			left := max(0, min(j, t.n-vectorN))
			w.b, w.stepB = t.columns(j, left)
			if i+vectorM <= t.m && j+vectorN <= t.n {
				w.c, w.ldc, w.onto = t.c[i*t.ldc+j:], t.ldc, t.onto
				w.fold(t.f)
				continue
			}
			w.c, w.ldc, w.onto = edge[:], vectorN, false
			w.fold(t.f)
			for r := i; r < min(i+vectorM, t.m); r++ {
				t.store(t.c[r*t.ldc+j:][:min(vectorN, t.n-j)], edge[(r-top)*vectorN+j-left:])
			}
		}
	}
}

// store writes, or adds, part of a row of an edge tile.
func (t *tiles) store(c, edge []float32) {
	if !t.onto {
		copy(c, edge)
		return
	}
	for j, v := range edge[:len(c)] {
		c[j] += v
	}
}

// tileSum is one tile of c with the rows of a and the columns of b that make it.
type tileSum struct {
	a, b, c     []float32
	rowA, stepA int
	stepB, ldc  int
	onto        bool      // c is added to
	stack       []float32 // partial sums; the lowest is in c itself
}

// fold runs the steps of the fold on the tile. A join that follows its chain is made in registers.
func (w *tileSum) fold(f Fold) {
	if f.InOrder {
		w.chain(f, &w.c[0], w.ldc, reduce.Step{Stride: 1, Count: f.N}, w.onto)
		return
	}
	top := 0
	for i := 0; i < len(f.Steps); i++ {
		s := f.Steps[i]
		if s.Join > 0 {
			top--
			c, ldc := w.slot(top - 1)
			from, _ := w.slot(top)
			addTile6x16(c, ldc, from)
			continue
		}
		join := i+1 < len(f.Steps) && f.Steps[i+1].Join > 0
		if join {
			i++
			top--
		}
		c, ldc := w.slot(top)
		w.chain(f, c, ldc, s, join)
		top++
	}
}

// chain adds the leaves of a step, from −0 or, with join, to what c holds.
func (w *tileSum) chain(f Fold, c *float32, ldc int, s reduce.Step, join bool) {
	a, b := &w.a[s.Start*w.stepA], &w.b[s.Start*w.stepB]
	if f.FMA {
		tile6x16FMA(c, ldc, a, w.rowA, s.Stride*w.stepA, b, s.Stride*w.stepB, s.Count, join)
		return
	}
	tile6x16(c, ldc, a, w.rowA, s.Stride*w.stepA, b, s.Stride*w.stepB, s.Count, join)
}

// slot is a place on the stack of partial sums, with the distance of its rows.
func (w *tileSum) slot(i int) (c *float32, ldc int) {
	if i == 0 {
		return &w.c[0], w.ldc
	}
	return &w.stack[i*vectorTile], vectorN
}

// vectorRows is addRows over as many columns as fill vector registers. It returns their number.
func vectorRows(dst, w []float32, sw int, x []float32, ld, n int, fma bool) int {
	columns := len(dst) &^ 7
	_, _ = w[(n-1)*sw], x[(n-1)*ld+columns-1] // nothing checks bounds from here on
	if fma {
		addRows8FMA(&dst[0], &w[0], sw, &x[0], ld, n, columns)
	} else {
		addRows8(&dst[0], &w[0], sw, &x[0], ld, n, columns)
	}
	return columns
}
