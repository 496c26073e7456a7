package optim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel"
	"firstbit/kernel/check"
	"firstbit/lowp"
	"firstbit/reduce"
)

// The fast path of the gradient norm against the tree, at every length around its lanes and any alignment.
func TestSumSquaresIsItsDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	fast := 0
	for _, order := range []string{"lanes(8)", "lanes(4)", "lanes(16)", "seq", "splitk(8)", "reverse"} {
		for n := range 70 {
			for _, acc := range []lowp.Format{lowp.FP32, lowp.BF16} {
				x := check.Random(r, n+3)[r.IntN(3):][:n]
				squares := make([]float32, n)
				for i, v := range x {
					squares[i] = v * v
				}
				f := foldOf(order, n)
				f.Acc = acc
				check.SameBits(t, []float32{reduce.MustOrder(order).Tree(n).Sum(squares, acc)}, []float32{sumSquares(x, f)}, "%s of %d", order, n)
				if f.Lanes(lanes) {
					fast++
				}
			}
		}
	}
	require.Positive(t, fast)
	x := check.Random(r, 500)
	require.NotEqual(t, sumSquares(x, foldOf("lanes(8)", 500)), sumSquares(x, foldOf("seq", 500)), "negative control")
}

// AdamW in float32 rounds every operation once, in the order written.
func TestAdamWRounding(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	w, m, v, g := check.Random(r, 50), check.Random(r, 50), check.Random(r, 50), check.Random(r, 50)
	h := adamWStep{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1, Bias1: 0.1, Bias2: 0.05, GradScale: 0.3}
	for i := range v {
		v[i] = v[i] * v[i]
	}
	w2, m2, v2 := slices.Clone(w), slices.Clone(m), slices.Clone(v)
	updateAdamW(w, m, v, g, h)
	for i := range w {
		one := adamwOf(w2[i], m2[i], v2[i], g[i], h)
		check.SameBits(t, one[:], []float32{w[i], m[i], v[i]}, "element %d", i)
	}
}

// adamwOf is one element, each rounding a statement of its own.
func adamwOf(w, m, v, g float32, h adamWStep) [3]float32 {
	round := func(x float64) float32 { return float32(x) } // one operation on float32 in float64, rounded: exact for + − × ÷ √
	f := func(x float32) float64 { return float64(x) }
	g = round(f(g) * f(float32(h.GradScale)))
	a, b := round(f(float32(h.Beta1))*f(m)), round(f(float32(1-h.Beta1))*f(g))
	m = round(f(a) + f(b))
	a, b = round(f(float32(h.Beta2))*f(v)), round(f(float32(1-h.Beta2))*f(round(f(g)*f(g))))
	v = round(f(a) + f(b))
	denominator := round(f(round(math.Sqrt(f(v)))) / f(float32(math.Sqrt(h.Bias2))))
	denominator = round(f(denominator) + f(float32(h.Eps)))
	update := round(f(float32(h.LR/h.Bias1)) * f(round(f(m)/f(denominator))))
	w = round(f(w) * f(float32(1-h.LR*h.Decay)))
	return [3]float32{round(f(w) - f(update)), m, v}
}

func BenchmarkAdamW(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	w, m, v, g := check.Random(r, 1<<16), make([]float32, 1<<16), make([]float32, 1<<16), check.Random(r, 1<<16)
	h := adamWStep{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1, Bias1: 0.1, Bias2: 0.05, GradScale: 1}
	check.Bytes(b, len(w), func() { updateAdamW(w, m, v, g, h) })
}

func BenchmarkSumSquares(b *testing.B) {
	x := check.Random(rand.New(rand.NewPCG(1, 1)), 1<<16)
	for _, order := range []string{"seq", "lanes(8)", "pairwise"} {
		f := foldOf(order, len(x))
		b.Run(order, func(b *testing.B) { check.Bytes(b, len(x), func() { sumSquares(x, f) }) })
	}
}

func TestSumSquaresOfAnotherLengthPanics(t *testing.T) {
	check.AnotherLength(t, inOrder(4), inOrder(3), map[string]func(kernel.Fold){"sum of squares": func(f kernel.Fold) { sumSquares(check.Ones(4), f) }})
}
