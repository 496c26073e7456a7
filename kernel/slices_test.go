package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"firstbit/libm"
)

// Kernels that hand libm whole rows against their formulas element by element, bit for bit, at
// widths about those of vector registers, with arguments past every edge of the exponential.
func TestKernelsBySliceAreTheirFormulas(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	for width := 1; width < 40; width++ {
		const rows = 3
		x, dy := wide32(r, rows*width), random32(r, rows*width)
		got, want := make([]float32, len(x)), make([]float32, len(x))
		each := func(f func(i int) float32) []float32 {
			for i := range want {
				want[i] = f(i)
			}
			return want
		}
		slope := func(x float32) float32 {
			s := libm.Sigmoid(x)
			return s * (1 + float32(x*(1-s)))
		}

		SiLU(got, x)
		requireSameBits(t, each(func(i int) float32 { return libm.SiLU(x[i]) }), got, "silu of %d", width)
		SiLUBackward(got, dy, x)
		requireSameBits(t, each(func(i int) float32 { return dy[i] * slope(x[i]) }), got, "silu backward of %d", width)
		Sigmoid(got, x)
		requireSameBits(t, each(func(i int) float32 { return libm.Sigmoid(x[i]) }), got, "sigmoid of %d", width)
		g := gated(dy, x)
		requireSameBits(t, each(func(i int) float32 { return dy[i] * libm.SiLU(x[i]) }), *g, "gate of %d", width)
		giveBack(g)

		f := inOrder(width)
		Softmax(got, x, width, f)
		requireSameBits(t, softmaxByElement(x, width, f), got, "softmax of %d", width)
		checkCrossEntropy(t, x, width, f)
	}
}

// wide32 are numbers whose exponential, or that of their differences, is 0, subnormal, plain, tiny beside 1 or ∞.
func wide32(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64()) * []float32{1e-10, 1, 10, 60, 900}[r.IntN(5)]
		if r.IntN(20) == 0 {
			x[i] = Negzero[float32]()
		}
	}
	return x
}

func softmaxByElement(x []float32, width int, f Fold) []float32 {
	want := make([]float32, len(x))
	for i := 0; i < len(x); i += width {
		row, m := want[i:i+width], largest(x[i:i+width])
		for j := range row {
			row[j] = libm.ExpOf(x[i+j] - m)
		}
		sum := Sum(f, row, 1)
		for j := range row {
			row[j] /= sum
		}
	}
	return want
}

func checkCrossEntropy(t *testing.T, logits []float32, width int, f Fold) {
	rows := len(logits) / width
	targets, loss, lse := make([]int32, rows), make([]float32, rows), make([]float32, rows)
	got, want, wantLSE := make([]float32, len(logits)), make([]float32, len(logits)), make([]float32, rows)
	targets[rows-1] = int32(width - 1)
	CrossEntropy(loss, lse, logits, targets, width, f)
	CrossEntropyBackward(got, logits, lse, targets, width, 0, 0.3)
	for i, target := range targets {
		row, d := logits[i*width:][:width], want[i*width:][:width]
		m := largest(row)
		for j, v := range row {
			d[j] = libm.ExpOf(v - m)
		}
		wantLSE[i] = m + libm.LogOf(Sum(f, d, 1))
		for j, v := range row {
			d[j] = libm.ExpOf(v-wantLSE[i]) * 0.3
		}
		d[target] = (libm.ExpOf(row[target]-wantLSE[i]) - 1) * 0.3
	}
	requireSameBits(t, wantLSE, lse, "log-sum-exp of %d", width)
	requireSameBits(t, want, got, "cross entropy backward of %d", width)
}

// The scan's decays against the exponentials they stand for, in chunks about the width of registers.
func TestScanDecaysAreExponentials(t *testing.T) {
	r := rand.New(rand.NewPCG(53, 54))
	for chunk := 1; chunk < 36; chunk++ {
		s := SSDShape{B: 1, T: chunk, H: 2, P: 3, G: 1, N: 2, Chunk: chunk}
		x, b, c := random32(r, s.T*s.H*s.P), random32(r, s.T*s.N), random32(r, s.T*s.N)
		dt, la := ones32(s.T*s.H), make([]float32, s.T*s.H)
		for i := range la {
			la[i] = -float32(math.Abs(r.NormFloat64())) * []float32{0, 1e-9, 0.1, 30, 800}[r.IntN(5)]
		}
		w := newScan(x, b, c, dt, la, s, SSDFolds{N: inOrder(s.N), Steps: inOrder})
		w.enter(0, 0, 0)
		for h := range s.H {
			w.head(h)
			sum, n := Negzero[float32](), w.n
			a, begun, left, decay, weight := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n*n), make([]float32, n*n)
			for i := range n {
				sum += la[i*s.H+h]
				a[i] = sum
				begun[i] = libm.ExpOf(sum)
				for j := range i + 1 {
					decay[i*n+j] = libm.ExpOf(a[i] - a[j])
					weight[i*n+j] = w.scores[i*n+j] * decay[i*n+j]
				}
			}
			for i := range n {
				left[i] = libm.ExpOf(sum - a[i])
				requireSameBits(t, decay[i*n:][:i+1], w.decay[i*n:][:i+1], "decay at %d of %d", i, n)
				requireSameBits(t, weight[i*n:][:i+1], w.weight[i*n:][:i+1], "weight at %d of %d", i, n)
			}
			requireSameBits(t, begun, w.begun[:n], "begun of %d", n)
			requireSameBits(t, left, w.left[:n], "left of %d", n)
		}
		w.release()
	}
}
