package moe

import (
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/reduce"
)

// Grouped products: rows are sorted by expert, rows offsets[e] to offsets[e+1] belong to
// expert e, and each expert has a matrix of its own.

// groupedMatMul multiplies each expert's rows by its matrix.
//
//	y[r] = fold_k x[r,k]·w_e[k,·]
//
// Shapes:  x (R,k), w (E,k,n) → y (R,n); with transposed, w (E,n,k).
// Reduces: k, by f.
func groupedMatMul[T libm.Float](y, x, w []T, offsets []int32, k, n int, transposed bool, f kernel.Fold) {
	for e := range len(offsets) - 1 {
		lo, hi := int(offsets[e]), int(offsets[e+1])
		we := kernel.RowMajor(w[e*k*n:][:k*n], n)
		if transposed {
			we = kernel.RowMajor(w[e*k*n:][:k*n], k).T()
		}
		kernel.MatMul(y[lo*n:hi*n], n, kernel.RowMajor(x[lo*k:hi*k], k), we, hi-lo, n, k, f)
	}
}

// groupedMatMulWeight is the gradient of groupedMatMul with respect to w.
//
//	dw_e[i,j] = fold over the rows r of e of x[r,i]·dy[r,j]
//
// Shapes:  x (R,m), dy (R,n) → dw (E,m,n).
// Reduces: rows, by a fold for their number; an expert without rows gets −0.
func groupedMatMulWeight[T libm.Float](dw, x, dy []T, offsets []int32, m, n int, rows func(n int) kernel.Fold) {
	for e := range len(offsets) - 1 {
		lo, hi := int(offsets[e]), int(offsets[e+1])
		kernel.MatMul(dw[e*m*n:][:m*n], n, kernel.RowMajor(x[lo*m:hi*m], m).T(), kernel.RowMajor(dy[lo*n:hi*n], n), m, n, hi-lo, rows(hi-lo))
	}
}

// tiling is how the epilogue of a grouped product cuts its result.
type tiling struct {
	M, N int // rows and columns of a tile
	Sub  int // columns of a sub-tile: what a thread block walks at a time
	Grid int // CTAs at work
}

// tile is one tile in the work list of a grouped product.
type tile struct {
	Rows    int // number of its row block
	Lo, Hi  int // its rows
	Col     int // number of its column tile
	Reverse bool
}

// Tiles lists the tiles of a grouped product over F columns, expert by expert, row
// block by row block, columns inner.
func (t tiling) Tiles(offsets []int32, f int) []tile {
	blocks := 0
	for e := range len(offsets) - 1 {
		blocks += (int(offsets[e+1]-offsets[e]) + t.M - 1) / t.M
	}
	tiles := make([]tile, 0, blocks*t.Cols(f))
	block := 0
	for e := range len(offsets) - 1 {
		for lo := int(offsets[e]); lo < int(offsets[e+1]); lo += t.M {
			hi := min(lo+t.M, int(offsets[e+1]))
			for c := range t.Cols(f) {
				tiles = append(tiles, tile{Rows: block, Lo: lo, Hi: hi, Col: c})
			}
			block++
		}
	}
	return tiles
}

// Cols is the number of column tiles over f columns.
func (t tiling) Cols(f int) int { return (f + t.N - 1) / t.N }

// Dispatch sets the direction in which each tile's sub-tiles are walked: a CTA alternates, so a
// tile's direction is its place in its CTA's work sequence mod 2. The static
// scheduler deals tiles in list order; the dynamic one in the given order of dispatch.
func (t tiling) Dispatch(tiles []tile, dispatch []int) {
	for place := range tiles {
		i := place
		if dispatch != nil {
			i = dispatch[place]
		}
		tiles[i].Reverse = place/t.Grid%2 == 1
	}
}

// groupedDProb is the epilogue of the grouped product acc = dy·W2ᵀ in the backward of
// an expert whose activation is relu²(h) weighted by its routing probability p.
//
//	forward:  a[r,n]   = p[r]·max(h[r,n],0)²
//	dh[r,n]   = acc[r,n]·p[r]·2·max(h[r,n],0)
//	dprob[r]  = Σ_n max(h[r,n],0)²·acc[r,n]
//
// Shapes:  acc, h, dh (R,F), p, dprob (R).
// Reduces: the columns of a sub-tile by n, a tile's sub-tiles in the direction of its
// walk, and the tiles of a row block in the order given for it.
// Source:  docs/facts.md, Kernels; Megatron Core's grouped GEMM with a fused activation.
func groupedDProb[T libm.Float](dprob, dh, acc, h, p []T, f int, t tiling, tiles []tile,
	n func(n int) kernel.Fold, join func(rowBlock int) kernel.Fold, probe func(tile tile, partial []T)) {
	cols := t.Cols(f)
	blocks := func(from, to int) {
		subs := subTiles{of: n}
		slots := kernel.Borrow[T](t.M * cols)
		defer kernel.GiveBack(slots)
		for b := from * cols; b < to*cols; b += cols {
			block := tiles[b : b+cols]
			lo, hi := block[0].Lo, block[0].Hi
			for _, tile := range block {
				for r := lo; r < hi; r++ {
					(*slots)[(r-lo)*cols+tile.Col] = dprobTile(h[r*f:][:f], acc[r*f:][:f], dh[r*f:][:f], p[r], t, tile, &subs)
				}
			}
			fold := join(block[0].Rows)
			for r := lo; r < hi; r++ {
				dprob[r] = kernel.Sum(fold, (*slots)[(r-lo)*cols:], 1)
			}
			if probe != nil {
				showSlots(*slots, block, cols, fold, probe)
			}
		}
	}
	if n := len(tiles) / cols; probe != nil || len(h) < epilogueLeast {
		blocks(0, n)
	} else {
		kernel.Spread(n, blocks) // row blocks write disjoint rows
	}
}

// epilogueLeast is the number of elements below which an epilogue stays on its goroutine.
const epilogueLeast = 1 << 14

// subTiles are the sums of sub-tiles by their length, each resolved once: there are at most three, of a whole one, of the last of a tile, and
// of the last of the last tile.
type subTiles struct {
	of    func(n int) kernel.Fold
	known [3]kernel.Fold
	count int
}

func (s *subTiles) fold(n int) *kernel.Fold {
	for i := range s.count {
		if s.known[i].N == n {
			return &s.known[i]
		}
	}
	s.known[s.count] = s.of(n)
	s.count++
	return &s.known[s.count-1]
}

// dprobTile is one row's share of a tile, and the dh of its columns.
func dprobTile[T libm.Float](h, acc, dh []T, p T, t tiling, tile tile, sums *subTiles) T {
	lo, hi := tile.Col*t.N, min((tile.Col+1)*t.N, len(h))
	terms := kernel.Borrow[T](hi - lo)
	defer kernel.GiveBack(terms)
	for i := lo; i < hi; i++ {
		r := max(h[i], 0)
		(*terms)[i-lo] = T(T(r*r) * acc[i])
		dh[i] = T(T(acc[i]*p) * T(2*r))
	}
	sum := kernel.Negzero[T]()
	subs := (hi - lo + t.Sub - 1) / t.Sub
	for s := range subs {
		if tile.Reverse {
			s = subs - 1 - s
		}
		part := (*terms)[s*t.Sub : min((s+1)*t.Sub, hi-lo)]
		f := sums.fold(len(part))
		sum = kernel.Join(*f, sum, kernel.Sum(*f, part, 1))
	}
	return sum
}

// showSlots shows a row block's tiles to the probe in the order in which they were added.
func showSlots[T libm.Float](slots []T, block []tile, cols int, fold kernel.Fold, probe func(tile, []T)) {
	column := make([]T, block[0].Hi-block[0].Lo)
	fold.Visit(func(_, leaf int) {
		for r := range column {
			column[r] = slots[r*cols+leaf]
		}
		probe(block[leaf], column)
	})
}

// groupedMatMulWeightAll is groupedMatMulWeight cut by token: every token is a leaf of every expert's sum, absent where
// it has no row.
//
//	dw_e[i,j] = fold over tokens of x[r,i]·dy[r,j], r the token's row of e
//
// Shapes:  x (R,m), dy (R,n), token (R), ascending for each expert → dw (E,m,n).
// Reduces: the tokens, by f; an expert without rows gets −0.
func groupedMatMulWeightAll[T libm.Float](dw, x, dy []T, offsets, token []int32, m, n int, f kernel.Fold) {
	var rows []int
	var px, pdy []T
	for e := range len(offsets) - 1 {
		lo, hi := int(offsets[e]), int(offsets[e+1])
		if lo == hi {
			kernel.Fill(dw[e*m*n:][:m*n], kernel.Negzero[T]())
			continue
		}
		kernel.RunRows(f, dw[e*m*n:][:m*n], func(acc []T, step reduce.Step) {
			rows = rows[:0]
			kernel.VisitPresent(f, step, token[lo:hi], func(i int) { rows = append(rows, lo+i) })
			if len(rows) == 0 {
				return
			}
			first, k := rows[0], len(rows)
			a, b := x[first*m:], dy[first*n:]
			if f.Perm != nil || step.Stride != 1 { // rows that do not follow one another
				px, pdy = packRows(px, x, rows, m), packRows(pdy, dy, rows, n)
				a, b = px, pdy
			}
			chain := kernel.Fold{Program: reduce.Seq.Program(k), Acc: f.Acc, FMA: f.FMA, MMA: f.MMA}
			kernel.MatMul(acc, n, kernel.RowMajor(a[:k*m], m).T(), kernel.RowMajor(b[:k*n], n), m, n, k, chain)
		})
	}
}

// packRows lays rows of x down one after another, in dst's storage.
func packRows[T libm.Float](dst, x []T, rows []int, d int) []T {
	dst = dst[:0]
	for _, r := range rows {
		dst = append(dst, x[r*d:][:d]...)
	}
	return dst
}
