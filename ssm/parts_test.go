package ssm

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel"
	"firstbit/kernel/check"
	"firstbit/nn"
)

// sliceSteps are the rows of steps from to from+n of every sequence of T rows.
func sliceSteps(x []float32, b, t, from, n int) (part []float32) {
	w := len(x) / (b * t)
	for seq := range b {
		part = append(part, x[(seq*t+from)*w:][:n*w]...)
	}
	return part
}

// setSteps is the inverse of sliceSteps.
func setSteps(x, part []float32, b, t, from, n int) {
	w := len(x) / (b * t)
	for seq := range b {
		copy(x[(seq*t+from)*w:][:n*w], part[seq*n*w:])
	}
}

// scanned is what a scan and its backward write.
type scanned struct {
	y, last []float32
	grad    ssdGradients[float32]
}

// all lists the tensors that have rows, and their names.
func (s *scanned) all() ([][]float32, []string) {
	return [][]float32{s.y, s.grad.X, s.grad.B, s.grad.C, s.grad.DT, s.grad.LA}, []string{"y", "dx", "db", "dc", "ddt", "dla"}
}

func scanBoth(k *ssdCase[float32], dy, begin, dlast []float32) *scanned {
	v := func(x []float32) []float32 { return make([]float32, len(x)) }
	r := &scanned{make([]float32, len(k.x)), make([]float32, k.B*k.H*k.P*k.N), ssdGradients[float32]{X: v(k.x), B: v(k.b), C: v(k.c), DT: v(k.dt), LA: v(k.la), Begin: v(begin)}}
	f := allFolds(k.ssdShape, "seq")
	ssd(r.y, r.last, k.x, k.b, k.c, k.dt, k.la, k.d, begin, k.ssdShape, f)
	ssdBackward(r.grad, dy, dlast, k.x, k.b, k.c, k.dt, k.la, k.d, begin, k.ssdShape, f)
	return r
}

// scanParts is the scan part after part, and its backward part before part; what the parts hand on goes through pass.
func scanParts(k *ssdCase[float32], dy []float32, parts int, pass func([]float32) []float32) *scanned {
	n := k.T / parts
	cut := func(x []float32, p int) []float32 { return sliceSteps(x, k.B, k.T, p*n, n) }
	piece := make([]*ssdCase[float32], parts)
	begin := make([][]float32, parts+1)
	for p := range parts {
		s := k.ssdShape
		s.T, s.first = n, p*n
		piece[p] = &ssdCase[float32]{ssdShape: s, x: cut(k.x, p), b: cut(k.b, p), c: cut(k.c, p), dt: cut(k.dt, p), la: cut(k.la, p), d: k.d}
		begin[p+1] = pass(scanBoth(piece[p], cut(dy, p), begin[p], nil).last)
	}
	whole := scanBoth(k, dy, nil, nil)
	want, _ := whole.all()
	for _, x := range want {
		clear(x)
	}
	whole.last = begin[parts]
	var dlast []float32
	for p := parts - 1; p >= 0; p-- {
		r := scanBoth(piece[p], cut(dy, p), begin[p], dlast)
		dlast = pass(r.grad.Begin)
		got, _ := r.all()
		for i := range got {
			setSteps(want[i], got[i], k.B, k.T, p*n, n)
		}
	}
	return whole
}

// A sequence scanned in parts has the bits of one scanned whole, if a chunk divides a part.
func TestScanOfPartsIsTheScan(t *testing.T) {
	for _, d := range []documents{{}, {check.Starts(32, []int{3, 8, 9, 23}, []int{16, 24, 30}), 0, 32}} {
		checkScanOfParts(t, d)
	}
}

func checkScanOfParts(t *testing.T, d documents) {
	t.Helper()
	s := ssdShape{B: 2, T: 32, H: 4, P: 9, G: 2, N: 11, Chunk: 4, documents: d}
	r := rand.New(rand.NewPCG(5, 6))
	rows := s.B * s.T
	k := &ssdCase[float32]{ssdShape: s, x: check.Random(r, rows*s.H*s.P), b: check.Random(r, rows*s.G*s.N), c: check.Random(r, rows*s.G*s.N),
		dt: check.Random(r, rows*s.H), la: check.Random(r, rows*s.H), d: check.Random(r, s.H)}
	for i := range k.la {
		k.la[i] = -k.la[i] * k.la[i]
	}
	dy := check.Random(r, len(k.x))
	same := func(a, b *scanned) bool {
		x, _ := a.all()
		y, _ := b.all()
		return slices.EqualFunc(append(x, a.last), append(y, b.last), slices.Equal)
	}
	whole := scanBoth(k, dy, nil, nil)
	for _, parts := range []int{1, 2, 4, 8} {
		got := scanParts(k, dy, parts, slices.Clone)
		want, names := whole.all()
		x, _ := got.all()
		for i, name := range names {
			check.SameBits(t, want[i], x[i], "%s in %d parts", name, parts)
		}
		check.SameBits(t, whole.last, got.last, "last state in %d parts", parts)
	}
	require.False(t, same(whole, scanParts(k, dy, 2, func([]float32) []float32 { return nil })), "negative control: a state is dropped")
	k.Chunk = 16
	require.False(t, same(scanBoth(k, dy, nil, nil), scanParts(k, dy, 4, slices.Clone)), "negative control: a chunk longer than a part")
}

// A convolution of a part of every sequence, with the steps next to it, has the bits of that of the whole.
func TestConvolutionOfPartsIsTheConvolution(t *testing.T) {
	for _, d := range []documents{{}, {check.Starts(12, []int{5, 7}, []int{2, 6, 11}), 0, 12}} {
		checkConvolutionOfParts(t, d)
	}
}

func checkConvolutionOfParts(t *testing.T, d documents) {
	t.Helper()
	s := convShape{B: 2, T: 12, C: 5, K: 4, documents: d}
	r := rand.New(rand.NewPCG(7, 7))
	rows, halo := s.B*s.T, s.K-1
	x, dy, w, bias := check.Random(r, rows*s.C), check.Random(r, rows*s.C), check.Random(r, s.C*s.K), check.Random(r, s.C)
	f := inOrder(s.K)
	y, dx := make([]float32, len(x)), make([]float32, len(x))
	causalConv(y, x, nil, w, bias, s, f)
	causalConvBackward(dx, dy, nil, w, s, f)
	for _, parts := range []int{2, 4} {
		n := s.T / parts
		part := s
		part.T = n
		for p := range parts {
			cut := func(v []float32) []float32 { return sliceSteps(v, s.B, s.T, p*n, n) }
			part.first = p * n
			var before, after []float32
			if p > 0 {
				before = sliceSteps(x, s.B, s.T, p*n-halo, halo)
			}
			if p < parts-1 {
				after = sliceSteps(dy, s.B, s.T, (p+1)*n, halo)
			}
			got, dgot := make([]float32, s.B*n*s.C), make([]float32, s.B*n*s.C)
			causalConv(got, cut(x), before, w, bias, part, f)
			causalConvBackward(dgot, cut(dy), after, w, part, f)
			check.SameBits(t, cut(y), got, "y of part %d of %d", p, parts)
			check.SameBits(t, cut(dx), dgot, "dx of part %d of %d", p, parts)
			if before != nil && d.together(0, p*n, p*n-1) {
				causalConv(got, cut(x), nil, w, bias, part, f)
				require.NotEqual(t, cut(y), got, "negative control: no steps before")
			}
			if after != nil && d.together(0, p*n+n-1, p*n+n) {
				causalConvBackward(dgot, cut(dy), nil, w, part, f)
				require.NotEqual(t, cut(dx), dgot, "negative control: no steps after")
			}
		}
	}
}

// The gradients of taps and bias of the parts of one sequence, each added after the part before it, are those of the whole.
func TestConvolutionWeightGradientsOfParts(t *testing.T) {
	s := convShape{B: 1, T: 8, C: 3, K: 4}
	r := rand.New(rand.NewPCG(7, 8))
	x, dy := check.Random(r, s.T*s.C), check.Random(r, s.T*s.C)
	run := func(s convShape, dy, x, before []float32, f kernel.Fold) []float32 {
		dw, db := make([]float32, s.C*s.K), make([]float32, s.C)
		causalConvWeightBackward(dw, db, dy, x, before, s, f)
		return append(dw, db...)
	}
	part := s
	part.T = 4
	sum := func(before []float32) []float32 {
		a, b := run(part, dy[:4*s.C], x[:4*s.C], nil, inOrder(4)), run(part, dy[4*s.C:], x[4*s.C:], before, inOrder(4))
		nn.Add(a, a, b)
		return a
	}
	want := run(s, dy, x, nil, foldOf("blocked(4)", s.T))
	check.SameBits(t, want, sum(x[s.C:4*s.C]), "two parts")
	require.NotEqual(t, want, sum(nil), "negative control: no steps before")
}
