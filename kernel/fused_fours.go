package kernel

import (
	"firstbit/lowp"
	"firstbit/reduce"
)

// takeFours takes a row of e2m1 apart: what is left to do once its products have been added, group by group. Its blocks are whole groups, in
// the order of leaves.
func (e *elements) takeFours(mma *lowp.MMA, i int, a Scales) {
	for g := range e.groups {
		z, x := mma.SplitScale(a.at(i, g*mma.Exact/mma.Block))
		e.scale[i*e.groups+g], e.exp[i*e.groups+g] = int32(z), int32(x)
	}
}

// groupSums are the exact sums of an element's groups of products, so far apart.
type groupSums struct {
	sums  []float32
	apart int
}

// The rows and columns whose groups are added at a time: few enough that the product of a group stays on its goroutine.
const foursRows, foursColumns = 12, 512

// runFours is run where products are added exactly first: sums of sixteen products of e2m1 are exact in float32, in any order.
func (t *fused) runFours(lo, hi int) {
	size := t.f.MMA.Exact
	sums := Borrow[float32](t.pa.groups * foursRows * foursColumns)
	defer GiveBack(sums)
	var buf [16]float32
	for i := lo; i < hi; i += foursRows {
		for j := 0; j < t.n; j += foursColumns {
			m, n := min(foursRows, hi-i), min(foursColumns, t.n-j)
			for g := range t.pa.groups {
				k := min(size, t.k-g*size)
				a := Mat[float32]{t.a.Data[i*t.a.Row+g*size*t.a.Col:], t.a.Row, t.a.Col}
				b := Mat[float32]{t.b.Data[g*size*t.b.Row+j*t.b.Col:], t.b.Row, t.b.Col}
				MatMul((*sums)[g*m*n:], n, a, b, m, n, k, Fold{Program: reduce.Seq.Program(k)})
			}
			for x := range m * n {
				t.c[(i+x/n)*t.ldc+j+x%n] = t.element(i+x/n, j+x%n, buf[:0], false, groupSums{(*sums)[x:], m * n})
			}
		}
	}
}

// fours is sum from a leaf on, for operands whose products have been added, group by group.
func (t *fused) fours(acc float32, i, j, leaf, n int, exact groupSums) float32 {
	mma := t.f.MMA
	first, groups := leaf/mma.Exact, (n+mma.Exact-1)/mma.Exact
	ea, eb := t.pa.exp[i*t.pa.groups+first:][:groups], t.pb.exp[j*t.pb.groups+first:][:groups]
	za, zb := t.pa.scale[i*t.pa.groups+first:][:groups], t.pb.scale[j*t.pb.groups+first:][:groups]
	c, e := mma.SplitAcc(acc)
	top := int32(e)
	for g, x := range ea {
		top = max(top, x+eb[g])
	}
	total := lowp.Align(c, int(int32(e)-top)+mma.Fraction-mma.AccPlaces())
	for g, x := range ea {
		quarters := int64(4 * exact.sums[(first+g)*exact.apart]) // fits: 2304 at most
		total += lowp.Align(quarters*int64(za[g])*int64(zb[g]), int(x+eb[g]-top)+mma.Fraction-mma.Places())
	}
	return mma.Round(total, int(top))
}
