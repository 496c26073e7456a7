package kernel

import (
	"sync"

	"firstbit/lowp"
	"firstbit/reduce"
)

// Scales are those of an operand's blocks along k: what multiplies element (i, k) is Data[i/Rows·Row + k/Block·Col], i its row in a
// and its column in b.
type Scales struct {
	Mat[float32]
	Rows int // neighbours that share their scales: 1, or the side of a square
}

// at is the scale of a row's block.
func (s Scales) at(i, block int) float32 { return s.Data[i/s.Rows*s.Row+block*s.Col] }

// MatMulScaled is MatMul by fused sums of operands whose blocks along k have scales that the tensor core multiplies with.
//
// Shapes:  a (m,k), b (k,n), sa (m,⌈k/block⌉), sb (n,⌈k/block⌉) → c (m,n), row-major with rows of ldc elements.
// Reduces: k, by f, whose chains begin where blocks do.
func MatMulScaled(c []float32, ldc int, a, b Mat[float32], sa, sb Scales, m, n, k int, f Fold) {
	if f.N != k || f.MMA == nil || f.MMA.Block == 0 {
		panic("kernel: MatMulScaled's fold is of another length than k, or is none of sums with scales")
	}
	t := fusedPool.Get().(*fused)
	t.sa, t.sb = sa, sb
	t.multiply(c, ldc, a, b, m, n, k, f)
}

// Blocks tells whether every chain of the fold begins where a block of so many leaves does, and runs along it.
func (f Fold) Blocks(size int) bool {
	for _, s := range f.Steps {
		if s.Join == 0 && (s.Start%size != 0 || s.Stride != 1 && s.Count > 1) {
			return false
		}
	}
	return f.Perm == nil
}

// Running tells whether every chain of the fold is a running sum, to which a tensor core can add products.
func (f Fold) Running() bool {
	for _, s := range f.Steps {
		if s.Join == 0 && s.By != reduce.Rounded {
			return false
		}
	}
	return true
}

// fused is one product under way whose chains are those of a tensor core's instructions: each adds the next Terms products to what the
// one before left, the first to +0.
type fused struct {
	c       []float32
	ldc     int
	a, b    Mat[float32]
	sa, sb  Scales
	m, n, k int
	f       Fold

	plain bool // NaN or an infinity is among the operands, or there are none: sums by their definition
	pa    elements
	pb    elements

	padded    int // elements of a row that is laid down for fused8
	constants fusedConstants
}

// elements are an operand taken apart, row by row, each row in the order in which the fold visits it: significands, and exponents, those of
// scales included. Where products are added exactly first, a row has one exponent for each group of them, and a significand of its scale, and no
// more.
type elements struct {
	sig, exp, scale []int32
	groups          int // of a row
}

var fusedPool = sync.Pool{New: func() any { return new(fused) }}

// multiply fills c and gives the task back.
func (t *fused) multiply(c []float32, ldc int, a, b Mat[float32], m, n, k int, f Fold) {
	t.c, t.ldc, t.a, t.b, t.m, t.n, t.k, t.f = c, ldc, a, b, m, n, k, f
	t.plain = k == 0 || !t.finite()
	inLanes := t.inLanes()
	switch {
	case inLanes:
		t.lay()
	case !t.plain:
		t.take(&t.pa, f.MMA.A, a, t.sa, m, f.MMA.Fraction-f.MMA.Places())
		t.take(&t.pb, f.MMA.B, b.T(), t.sb, n, 0)
	}
	run := rangeFunc(t.run)
	if inLanes {
		run = t.runLanes
	}
	if m*n*k < parallelFlops/8 {
		run(0, m)
	} else {
		parallel(run, m)
	}
	pa, pb := t.pa, t.pb // keep their storage
	*t = fused{pa: pa, pb: pb}
	fusedPool.Put(t)
}

// finite tells whether no operand is NaN or infinite, as it reaches the instruction.
func (t *fused) finite() bool {
	ok := finiteRows(t.a, t.m, t.k) && finiteRows(t.b, t.k, t.n)
	if t.f.MMA.Block > 0 {
		blocks := (t.k + t.f.MMA.Block - 1) / t.f.MMA.Block
		ok = ok && finiteRows(t.sa.Mat, (t.m+t.sa.Rows-1)/t.sa.Rows, blocks) && finiteRows(t.sb.Mat, (t.n+t.sb.Rows-1)/t.sb.Rows, blocks)
	}
	return ok
}

func finiteRows(a Mat[float32], m, n int) bool {
	if a.Col != 1 {
		a, m, n = a.T(), n, m
	}
	for i := range m {
		if a.Col != 1 {
			for j := range n {
				if v := a.Data[i*a.Row+j*a.Col]; v-v != 0 {
					return false
				}
			}
			continue
		}
		if n > 0 && !lowp.Finite(a.Data[i*a.Row:][:n]) {
			return false
		}
	}
	return true
}

// take takes an operand's rows apart. Significands are shifted to the left, so that a product is a multiple of the last bit that an
// addend of the largest exponent keeps.
func (t *fused) take(e *elements, f lowp.Format, a Mat[float32], s Scales, rows, shift int) {
	mma := t.f.MMA
	if mma.Exact > 0 {
		e.groups = (t.k + mma.Exact - 1) / mma.Exact
		e.exp, e.scale = grown(e.exp, rows*e.groups), grown(e.scale, rows*e.groups)
		for i := range rows {
			e.takeFours(mma, i, s)
		}
		return
	}
	e.sig, e.exp = grown(e.sig, rows*t.k), grown(e.exp, rows*t.k)
	for i := range rows {
		sig, exp := e.sig[i*t.k:][:t.k], e.exp[i*t.k:][:t.k]
		t.f.Visit(func(pos, leaf int) {
			z, x := mma.Split(a.Data[i*a.Row+leaf*a.Col], f)
			if mma.Block > 0 {
				_, by := mma.SplitScale(s.at(i, leaf/mma.Block))
				x += by
			}
			sig[pos], exp[pos] = int32(z)<<shift, int32(x) // fits: 11 bits, shifted by 11 at most
		})
	}
}

func grown(x []int32, n int) []int32 {
	if cap(x) < n {
		return make([]int32, n)
	}
	return x[:n]
}

// run computes rows lo to hi.
func (t *fused) run(lo, hi int) {
	if t.f.MMA.Exact > 0 && !t.plain {
		t.runFours(lo, hi)
		return
	}
	var buf [16]float32
	for i := lo; i < hi; i++ {
		for j := range t.n {
			t.c[i*t.ldc+j] = t.element(i, j, buf[:0], t.plain, groupSums{})
		}
	}
}

// element is the stack machine on chains of fused sums, by their definition or on elements that were taken apart.
func (t *fused) element(i, j int, stack []float32, plain bool, exact groupSums) float32 {
	if t.f.N == 0 {
		return 0
	}
	pos := 0
	for _, s := range t.f.Steps {
		if s.Join > 0 {
			from := len(stack) - s.Join
			stack = append(stack[:from], joinAll(t.f, s, stack[from:]))
			continue
		}
		acc := float32(0)
		for at := 0; at < s.Count; at += t.f.MMA.Terms {
			n := min(t.f.MMA.Terms, s.Count-at)
			switch {
			case plain:
				acc = t.definition(acc, i, j, pos+at, n)
			case acc-acc != 0: // it has overflown, and what is finite leaves it so
			case t.f.MMA.Exact > 0:
				acc = t.fours(acc, i, j, s.Start+at, n, exact)
			default:
				acc = t.sum(acc, i, j, pos+at, n)
			}
		}
		stack = append(stack, acc)
		pos += s.Count
	}
	return stack[0]
}

// sum is one fused sum of n products from a position on.
func (t *fused) sum(acc float32, i, j, pos, n int) float32 {
	at, bt := i*t.k+pos, j*t.k+pos
	ea, eb := t.pa.exp[at:][:n], t.pb.exp[bt:][:n]
	c, e := t.f.MMA.SplitAcc(acc)
	top := int32(e)
	for k, x := range ea {
		top = max(top, x+eb[k])
	}
	total := lowp.Align(c, int(int32(e)-top)+t.f.MMA.Fraction-t.f.MMA.AccPlaces())
	za, zb := t.pa.sig[at:][:n], t.pb.sig[bt:][:n]
	for k, x := range ea {
		p := int64(za[k]) * int64(zb[k])
		gap := min(uint32(top-x-eb[k]), 63) & 63
		sign := p >> 63
		total += ((p^sign-sign)>>gap ^ sign) - sign
	}
	return t.f.MMA.Round(total, int(top))
}

// definition is one fused sum as lowp defines it.
func (t *fused) definition(acc float32, i, j, pos, n int) float32 {
	mma := t.f.MMA
	var a, b, sa, sb [64]float32
	for k := range n {
		leaf := t.leaf(pos + k)
		a[k], b[k] = t.a.Data[i*t.a.Row+leaf*t.a.Col], t.b.Data[leaf*t.b.Row+j*t.b.Col]
		if mma.Block > 0 {
			sa[k/mma.Block], sb[k/mma.Block] = t.sa.at(i, leaf/mma.Block), t.sb.at(j, leaf/mma.Block)
		}
	}
	return mma.Sum(acc, a[:n], b[:n], sa[:], sb[:])
}

// leaf is the leaf that the fold visits at a position of its chains.
func (t *fused) leaf(pos int) int {
	for _, s := range t.f.Steps {
		if pos < s.Count {
			return t.f.Leaf(s.Start + pos*s.Stride)
		}
		pos -= s.Count
	}
	panic("kernel: a position past the fold's last")
}

// FusedNaive is the definition of products by fused sums: each element by itself, each sum by lowp.MMA.Sum.
func FusedNaive(c []float32, ldc int, a, b Mat[float32], sa, sb Scales, m, n, k int, f Fold) {
	t := &fused{c: c, ldc: ldc, a: a, b: b, sa: sa, sb: sb, m: m, n: n, k: k, f: f, plain: true}
	t.run(0, m)
}
