package kernel

import (
	"math/rand/v2"
	"testing"

	"firstbit/kernel/check"
	"firstbit/lowp"
	"firstbit/reduce"
)

// A causal product against its definition, bit for bit: one Dot an element, in which an absent leaf is the
// product 0·−0 = −0. Orders, formats of partial sums, fusing, both sides, odd alignments, one head or two.
func TestCausalIsItsDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for _, order := range check.Orders {
		for _, acc := range []Fold{{Acc: lowp.FP32}, {Acc: lowp.BF16}, {Acc: lowp.FP16}, {Acc: lowp.FP32, FMA: true}} {
			for _, steps := range []int{1, 2, 7, 13} {
				for _, keep := range []side{PastOnly, FutureOnly} {
					for heads := 1; heads <= 2; heads++ {
						acc.Program = reduce.MustOrder(order).Program(heads * steps)
						checkCausal(t, r, acc, Steps{Keys: steps, Queries: steps}, heads*steps, keep)
					}
				}
			}
		}
	}
}

func checkCausal(t *testing.T, r *rand.Rand, f Fold, s Steps, n int, keep side) {
	t.Helper()
	const p = 5
	offset := r.IntN(3)
	w, x := check.Random(r, s.Keys*n+offset)[offset:], check.Random(r, n*p+offset)[offset:]
	clear(w[:len(w)/2]) // and zeros of both signs among the sums
	for i := range n {
		x[i*p] = Negzero[float32]()
	}
	got := make([]float32, s.Keys*p)
	Causal(f, RowMajor(got, p), RowMajor(w, s.Keys).T(), RowMajor(x, p), p, s, keep)
	for step := range s.Keys {
		for j := range p {
			wi, xi := make([]float32, n), make([]float32, n)
			for i := range n {
				at := i % s.Keys
				if keep == PastOnly && at <= step || keep == FutureOnly && at >= step {
					wi[i], xi[i] = w[i*s.Keys+step], x[i*p+j]
				} else {
					xi[i] = Negzero[float32]()
				}
			}
			want := Dot(f, wi, 1, xi, 1)
			check.SameBits(t, []float32{want}, got[step*p+j:][:1], "step %d, side %v, %d leaves, acc %v fma %v", step, keep, n, f.Acc, f.FMA)
		}
	}
}
