package kernel

// Vector tiles step over operands by any stride, so packing is for what a load cannot gather, for
// what a permutation visits, and where reading in place would cost more: rows far apart
// fall on the same few sets of the cache, so each pass over them misses again.
const (
	farApart    = 256 // elements
	packedRows  = 48  // of c that make packing b pay
	packedPanel = 128 // columns of c that make packing a pay
)

// pack lays b down if it cannot be read in place, and decides about a.
func (t *tiles) pack() {
	t.packsA = t.f.Perm != nil || t.m < vectorM || t.a.Row == 1 && t.a.Col >= farApart && t.n >= packedPanel
	if t.f.Perm == nil && t.b.Col == 1 && t.n >= vectorN && !(t.b.Row >= farApart && t.m >= packedRows) {
		return
	}
	size := t.k * vectorN
	t.panels = Borrow[float32]((t.n + vectorN - 1) / vectorN * size)
	for j := 0; j < t.n; j += vectorN {
		t.packColumns((*t.panels)[j/vectorN*size:][:size], max(0, min(j, t.n-vectorN)))
	}
}

// packColumns lays the vectorN columns of b from j down; those past the end stay zero.
func (t *tiles) packColumns(panel []float32, j int) {
	switch {
	case t.n < vectorN:
		clear(panel)
		for s := range t.n {
			t.packOne(panel[s:], vectorN, t.b.Data[s*t.b.Col:], t.b.Row)
		}
	case t.f.Perm == nil && t.b.Col == 1:
		pack16(&panel[0], &t.b.Data[j], t.b.Row, t.k)
	case t.f.Perm == nil && t.b.Row == 1 && t.k >= 4:
		for s := 0; s < vectorN; s += 8 {
			transpose8(&panel[s], &t.b.Data[(j+s)*t.b.Col], t.b.Col, t.k&^3)
		}
		for pos := t.k &^ 3; pos < t.k; pos++ {
			for s := range vectorN {
				panel[pos*vectorN+s] = t.b.Data[pos+(j+s)*t.b.Col]
			}
		}
	default:
		for s := range vectorN {
			t.packOne(panel[s:], vectorN, t.b.Data[(j+s)*t.b.Col:], t.b.Row)
		}
	}
}

// packOne lays the k elements of a row of a or a column of b down, by position in the fold.
func (t *tiles) packOne(dst []float32, step int, src []float32, stride int) {
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

// rows are the vectorM rows of a from i, with the distances of rows and of steps; past the
// end they repeat the last.
func (t *tiles) rows(i int, buf []float32) (a []float32, row, step int) {
	if !t.packsA {
		return t.a.Data[i*t.a.Row:], t.a.Row, t.a.Col
	}
	if t.f.Perm == nil && t.a.Row == 1 && t.m >= vectorM {
		pack6(&buf[0], &t.a.Data[i], t.a.Col, t.k)
		return buf, 1, vectorM
	}
	for r := range vectorM {
		t.packOne(buf[r:], vectorM, t.a.Data[min(i+r, t.m-1)*t.a.Row:], t.a.Col)
	}
	return buf, 1, vectorM
}

// columns are the vectorN columns of b that make the columns of c from j, from left on, with the
// distance of steps.
func (t *tiles) columns(j, left int) (b []float32, step int) {
	if t.panels == nil {
		return t.b.Data[left:], t.b.Row
	}
	return (*t.panels)[j*t.k:], vectorN
}
