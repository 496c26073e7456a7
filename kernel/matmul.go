package kernel

import (
	"firstbit/libm"
)

// Mat is a matrix by strides: element (i, j) is Data[i·Row + j·Col].
type Mat[T libm.Float] struct {
	Data     []T
	Row, Col int
}

// RowMajor is a row-major matrix with rows of ld elements.
func RowMajor[T libm.Float](x []T, ld int) Mat[T] { return Mat[T]{x, ld, 1} }

// T is the transpose, without moving anything.
func (m Mat[T]) T() Mat[T] { return Mat[T]{m.Data, m.Col, m.Row} }

// The register tile: tileM rows of a meet tileN columns of b.
const tileM, tileN = 4, 2

// MatMul multiplies matrices, every element of c by the same fold over k.
//
//	c[i,j] = fold_k a[i,k]·b[k,j]
//
// Shapes:  a (m,k), b (k,n) → c (m,n), row-major with rows of ldc elements.
// Reduces: k, by f.
//
// The order is applied while packing: panels of a and b are laid down in the order in
// which the fold visits k, so the inner loop only ever sees chains of consecutive
// products, whatever the order. Rows are split over goroutines; no bit depends on it.
func MatMul[T libm.Float](c []T, ldc int, a, b Mat[T], m, n, k int, f Fold) {
	if f.N != k {
		panic("kernel: MatMul's fold is of another length than k")
	}
	if m == 0 || n == 0 {
		return
	}
	if ldc == n && f.Perm == nil && f.Raced(m*n/vectorLeast) {
		raceMatMul(c, a, b, m, n, f)
		return
	}
	multiply(c, ldc, a, b, m, n, k, f, true)
}

// multiply is MatMul, whose rows threads may share.
func multiply[T libm.Float](c []T, ldc int, a, b Mat[T], m, n, k int, f Fold, threads bool) {
	if c, ok := any(c).([]float32); ok && f.MMA != nil {
		fusedPool.Get().(*fused).multiply(c, ldc, any(a).(Mat[float32]), any(b).(Mat[float32]), m, n, k, f)
		return
	}
	if c, ok := any(c).([]float32); ok && vectorised && k > 0 && m*n >= vectorLeast && (Plain[T](f) || fusing && Fused[T](f)) {
		vectorMatMul(c, ldc, any(a).(Mat[float32]), any(b).(Mat[float32]), m, n, k, f, threads, false)
		return
	}
	t := takeTask[T]()
	t.c, t.ldc, t.a, t.b, t.m, t.n, t.k, t.f = c, ldc, a, b, m, n, k, f
	t.packB()
	blocks := (m + tileM - 1) / tileM
	if !threads || m*n*k < parallelFlops {
		t.run(0, blocks)
	} else {
		parallel(t, blocks)
	}
	t.release()
}

// product is one MatMul under way.
type product[T libm.Float] struct {
	c       []T
	ldc     int
	a, b    Mat[T]
	m, n, k int
	f       Fold
	panels  *[]T // b, packed: for each tileN columns, k·tileN elements
}

// packB lays b down panel by panel, k in the order of the fold.
func (t *product[T]) packB() {
	np := (t.n + tileN - 1) / tileN
	t.panels = Borrow[T](np * t.k * tileN)
	dst, b := *t.panels, t.b
	for p := range np {
		panel := dst[p*t.k*tileN:][:t.k*tileN]
		j0, j1 := p*tileN*b.Col, min(p*tileN+1, t.n-1)*b.Col
		if t.f.InOrder {
			o := 0
			for i := 0; i+1 < len(panel); i += tileN {
				panel[i], panel[i+1] = b.Data[o+j0], b.Data[o+j1]
				o += b.Row
			}
			continue
		}
		t.f.Visit(func(pos, leaf int) {
			panel[pos*tileN], panel[pos*tileN+1] = b.Data[leaf*b.Row+j0], b.Data[leaf*b.Row+j1]
		})
	}
}

// packA lays tileM rows of a down, k in the order of the fold; rows past the end repeat the last.
func (t *product[T]) packA(panel []T, i int) {
	a := t.a
	r0, r1 := i*a.Row, min(i+1, t.m-1)*a.Row
	r2, r3 := min(i+2, t.m-1)*a.Row, min(i+3, t.m-1)*a.Row
	if t.f.InOrder {
		o := 0
		for len(panel) >= tileM {
			panel[0], panel[1], panel[2], panel[3] = a.Data[o+r0], a.Data[o+r1], a.Data[o+r2], a.Data[o+r3]
			panel = panel[tileM:]
			o += a.Col
		}
		return
	}
	t.f.Visit(func(pos, leaf int) {
		o, q := leaf*a.Col, panel[pos*tileM:]
		q[0], q[1], q[2], q[3] = a.Data[o+r0], a.Data[o+r1], a.Data[o+r2], a.Data[o+r3]
	})
}

// run computes row blocks lo to hi.
func (t *product[T]) run(lo, hi int) {
	pa := Borrow[T](t.k * tileM)
	var buf [8][tileM * tileN]T // deep enough for sums of 2⁷ blocks without allocating
	var stack [][tileM * tileN]T
	if !t.f.InOrder || !Plain[T](t.f) {
		stack = buf[:]
		if t.f.simple() && t.f.Depth > len(buf) {
			stack = make([][tileM * tileN]T, t.f.Depth)
		}
	}
	for blk := lo; blk < hi; blk++ {
		i := blk * tileM
		t.packA(*pa, i)
		for j := 0; j < t.n; j += tileN {
			pb := (*t.panels)[j/tileN*t.k*tileN:][:t.k*tileN]
			var acc [tileM * tileN]T
			if stack == nil {
				Fill(acc[:], Negzero[T]())
				chain(&acc, *pa, pb)
			} else {
				acc = t.fold(stack, *pa, pb)
			}
			t.store(&acc, i, j)
		}
	}
	GiveBack(pa)
}

// fold runs the steps of the fold on one register tile.
func (t *product[T]) fold(stack [][tileM * tileN]T, pa, pb []T) (acc [tileM * tileN]T) {
	Fill(acc[:], Negzero[T]())
	if !t.f.simple() {
		return t.definition(pa, pb)
	}
	top, plain := 0, Plain[T](t.f)
	for _, s := range t.f.Steps {
		if s.Join > 0 {
			top--
			for x := range acc {
				stack[top-1][x] = Join(t.f, stack[top-1][x], stack[top][x])
			}
			continue
		}
		Fill(stack[top][:], Negzero[T]())
		if plain {
			chain(&stack[top], pa[:s.Count*tileM], pb[:s.Count*tileN])
		} else {
			chainSlow(t.f, &stack[top], pa[:s.Count*tileM], pb[:s.Count*tileN])
		}
		pa, pb = pa[s.Count*tileM:], pb[s.Count*tileN:]
		top++
	}
	if top > 0 {
		acc = stack[0]
	}
	return acc
}

// definition adds each element of the tile by itself: for folds that send, store, or add more than two at once.
func (t *product[T]) definition(pa, pb []T) (acc [tileM * tileN]T) {
	at := 0
	for x := range acc {
		at = 0
		acc[x] = run(t.f, func(sum T, _ int) T { // leaves come in the order in which they are packed
			at++
			return MulAdd(t.f, sum, pa[(at-1)*tileM+x/tileN], pb[(at-1)*tileN+x%tileN])
		})
	}
	return acc
}

// store writes what of the tile lies inside c.
func (t *product[T]) store(acc *[tileM * tileN]T, i, j int) {
	for r := range min(tileM, t.m-i) {
		for s := range min(tileN, t.n-j) {
			t.c[(i+r)*t.ldc+j+s] = acc[r*tileN+s]
		}
	}
}

// chain is the inner loop of matrix products: acc += a·b over consecutive k,
// each product rounded before it is added. Vector tiles have the same bits, sooner.
func chain[T libm.Float](acc *[tileM * tileN]T, pa, pb []T) {
	c00, c01, c10, c11 := acc[0], acc[1], acc[2], acc[3]
	c20, c21, c30, c31 := acc[4], acc[5], acc[6], acc[7]
	for len(pa) >= tileM && len(pb) >= tileN {
		b0, b1 := pb[0], pb[1]
		a := pa[0]
		c00 += T(a * b0)
		c01 += T(a * b1)
		a = pa[1]
		c10 += T(a * b0)
		c11 += T(a * b1)
		a = pa[2]
		c20 += T(a * b0)
		c21 += T(a * b1)
		a = pa[3]
		c30 += T(a * b0)
		c31 += T(a * b1)
		pa, pb = pa[tileM:], pb[tileN:]
	}
	acc[0], acc[1], acc[2], acc[3] = c00, c01, c10, c11
	acc[4], acc[5], acc[6], acc[7] = c20, c21, c30, c31
}

// chainSlow is chain for folds that round partial sums or fuse products.
func chainSlow[T libm.Float](f Fold, acc *[tileM * tileN]T, pa, pb []T) {
	for ; len(pa) >= tileM; pa, pb = pa[tileM:], pb[tileN:] {
		for r := range tileM {
			for s := range tileN {
				acc[r*tileN+s] = MulAdd(f, acc[r*tileN+s], pa[r], pb[s])
			}
		}
	}
}

// From is the matrix from row i on.
func (m Mat[T]) From(i int) Mat[T] { return Mat[T]{m.Data[i*m.Row:], m.Row, m.Col} }
