package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel/check"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/reduce"
)

// Special values reach the same bits as the definition: signed zeros, subnormals, overflow; an arithmetic NaN is one class
// (docs/facts.md, Go).
func TestMatMulOfSpecialValues(t *testing.T) {
	special := []float32{0, float32(math.Copysign(0, -1)), 1e-45, -1e-40, 3e38, -3e38, float32(math.Inf(1)), 1, -1, 0x1p-126}
	r := rand.New(rand.NewPCG(7, 8))
	for _, order := range check.Orders {
		for range 20 {
			m, n, k := 1+r.IntN(6), 1+r.IntN(5), 1+r.IntN(7)
			a, b := make([]float32, m*k), make([]float32, k*n)
			for i := range a {
				a[i] = special[r.IntN(len(special))]
			}
			for i := range b {
				b[i] = special[r.IntN(len(special))]
			}
			got, want := make([]float32, m*n), make([]float32, m*n)
			f := foldOf(order, k)
			MatMul(got, n, RowMajor(a, k), RowMajor(b, n), m, n, k, f)
			matMulNaive(want, n, RowMajor(a, k), RowMajor(b, n), m, n, k, f)
			for i := range got {
				if got[i] != got[i] && want[i] != want[i] {
					got[i], want[i] = 0, 0
				}
			}
			check.SameBits(t, want, got, "%d×%d×%d by %s", m, n, k, order)
		}
	}
	empty := make([]float32, 6)
	MatMul(empty, 2, RowMajor([]float32{}, 0), RowMajor([]float32{}, 2), 3, 2, 0, inOrder(0))
	for _, v := range empty {
		require.Zero(t, v)
		require.True(t, math.Signbit(float64(v)), "the empty sum is −0")
	}
	// 0·NaN is not skipped.
	nan, one := []float32{float32(math.NaN())}, []float32{0}
	MatMul(one, 1, RowMajor(one, 1), RowMajor(nan, 1), 1, 1, 1, inOrder(1))
	require.True(t, math.IsNaN(float64(one[0])))
}

// A product inside a larger array writes its own elements and no others.
func TestMatMulKeepsToItsRows(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, size := range [][4]int{{5, 3, 4, 9}, {70, 61, 40, 64}} { // the second is split over goroutines
		m, n, k, ld := size[0], size[1], size[2], size[3]
		a, b := check.Random(r, m*k), check.Random(r, k*n)
		c := make([]float32, m*ld)
		Fill(c, 7)
		MatMul(c, ld, RowMajor(a, k), RowMajor(b, n), m, n, k, inOrder(k))
		want := make([]float32, m*n)
		matMulNaive(want, n, RowMajor(a, k), RowMajor(b, n), m, n, k, inOrder(k))
		for i := range m {
			check.SameBits(t, want[i*n:][:n], c[i*ld:][:n], "row %d", i)
			for _, v := range c[i*ld+n : (i+1)*ld] {
				require.Equal(t, float32(7), v, "beside row %d", i)
			}
		}
	}
	require.Panics(t, func() {
		MatMul(make([]float32, 1), 1, RowMajor(check.Ones(2), 2), RowMajor(check.Ones(2), 1), 1, 1, 2, inOrder(3))
	})
}

// The check that holds MatMul to its definition notices another order, format or fusing.
func TestMatMulNegativeControl(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	const n = 33
	a, b := check.Random(r, n*n), check.Random(r, n*n)
	product := func(f Fold) []float32 {
		c := make([]float32, n*n)
		MatMul(c, n, RowMajor(a, n), RowMajor(b, n), n, n, n, f)
		return c
	}
	base := product(inOrder(n))
	for name, f := range map[string]Fold{
		"order": foldOf("pairwise", n), "reverse": foldOf("reverse", n), "bf16": {Program: reduce.Seq.Program(n), Acc: lowp.BF16},
		"fp16": {Program: reduce.Seq.Program(n), Acc: lowp.FP16}, "fma": {Program: reduce.Seq.Program(n), Acc: lowp.FP32, FMA: true},
	} {
		require.NotEqual(t, base, product(f), name)
	}
	require.Equal(t, base, product(foldOf("given("+indices(n)+")", n)), "the identity, written out")
}

func indices(n int) string { s := fmt.Sprint(slices.Collect(upTo(n))); return s[1 : len(s)-1] }

func upTo(n int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// float64 takes no notice of the accumulate format or of fusing: it is for references.
func TestFloat64IsPlain(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	const m, n, k = 9, 7, 33
	a, b := check.Normal(r, m*k), check.Normal(r, k*n)
	for _, order := range check.Orders {
		got, want := make([]float64, m*n), make([]float64, m*n)
		f := foldOf(order, k)
		matMulNaive(want, n, RowMajor(a, k), RowMajor(b, n), m, n, k, f)
		f.Acc, f.FMA = lowp.BF16, true
		MatMul(got, n, RowMajor(a, k), RowMajor(b, n), m, n, k, f)
		require.Equal(t, want, got, order)
	}
}

// matMulNaive is the definition of MatMul, one Dot an element.
func matMulNaive[T libm.Float](c []T, ldc int, a, b Mat[T], m, n, k int, f Fold) {
	for i := range m {
		for j := range n {
			c[i*ldc+j] = Dot(f, a.Data[i*a.Row:], a.Col, b.Data[j*b.Col:], b.Row)
		}
	}
}
