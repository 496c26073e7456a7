package nn

import (
	"math"
	"math/rand/v2"
	"testing"

	"firstbit/kernel"
	"firstbit/kernel/check"
	"firstbit/lowp"
	"firstbit/reduce"
)

func TestRMSNormGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	rows, d := 5, 8
	x, w, y, rstd := check.Normal(r, rows*d), check.Normal(r, d), make([]float64, rows*d), make([]float64, rows)
	f := func() []float64 { RMSNorm(y, rstd, x, w, d, 1e-5, inOrder(d)); return y }
	check.Gradient(t, "dx", x, f, func(dy []float64) []float64 {
		dx := make([]float64, rows*d)
		RMSNormBackward(dx, dy, x, w, rstd, d, inOrder(d))
		return dx
	})
	check.Gradient(t, "dw", w, f, func(dy []float64) []float64 {
		dw := make([]float64, d)
		RMSNormWeightBackward(dw, dy, x, rstd, d, inOrder(rows))
		return dw
	})
}

func BenchmarkRMSNorm(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	x, w, y, rstd := check.Random(r, 512*128), check.Random(r, 128), make([]float32, 512*128), make([]float32, 512)
	f := inOrder(128)
	check.Bytes(b, len(x), func() { RMSNorm(y, rstd, x, w, 128, 1e-5, f) })
}

func BenchmarkReLU2(b *testing.B) {
	x := check.Random(rand.New(rand.NewPCG(1, 1)), 1<<16)
	y := make([]float32, len(x))
	check.Bytes(b, len(x), func() { ReLU2(y, x) })
}

func TestNormsWithFoldsOfAnotherLengthPanic(t *testing.T) {
	x, y, rstd := check.Ones(12), make([]float32, 12), make([]float32, 3)
	check.AnotherLength(t, inOrder(4), inOrder(3), map[string]func(kernel.Fold){
		"norm":          func(f kernel.Fold) { RMSNorm(y, rstd, x, x[:4], 4, 1, f) },
		"norm backward": func(f kernel.Fold) { RMSNormBackward(y, x, x, x[:4], x[:3], 4, f) },
		"norm weight":   func(f kernel.Fold) { RMSNormWeightBackward(y[:3], x, x, x[:4], 3, f) },
	})
}

func TestNormsAddByTheirPlan(t *testing.T) {
	check.Sums(t, func(order string, n int) map[string]reduce.Summer {
		return map[string]reduce.Summer{"norm weight": func(x []float32) float32 {
			dw := make([]float32, 1)
			RMSNormWeightBackward(dw, x, check.Ones(n), check.Ones(n), 1, foldOf(order, n))
			return dw[0]
		}}
	})
	r := rand.New(rand.NewPCG(5, 6))
	const n = 19
	for _, order := range check.Orders {
		x, w, y, squares, rstd := check.Random(r, n), check.Random(r, n), make([]float32, n), make([]float32, n), make([]float32, 1)
		for i, v := range x {
			squares[i] = v * v
		}
		RMSNorm(y, rstd, x, w, n, 1e-5, foldOf(order, n))
		want := 1 / float32(math.Sqrt(float64(reduce.MustOrder(order).Tree(n).Sum(squares, lowp.FP32)/n+1e-5)))
		check.SameBits(t, []float32{want}, rstd, "rmsnorm by %s", order)
	}
}

func TestReLU2Gradients(t *testing.T) {
	x, y := check.Normal(rand.New(rand.NewPCG(2, 2)), 40), make([]float64, 40)
	check.Gradient(t, "relu2", x, func() []float64 { ReLU2(y, x); return y }, func(dy []float64) []float64 {
		dx := make([]float64, 40)
		ReLU2Backward(dx, dy, x)
		return dx
	})
}

// BenchmarkRows is the kernels over rows that have no benchmark of their own.
func BenchmarkRows(b *testing.B) {
	const rows, d = 512, 128
	r := rand.New(rand.NewPCG(1, 1))
	x, y, dy, w, rstd, dw := check.Random(r, rows*d), make([]float32, rows*d), check.Random(r, rows*d), check.Random(r, d), check.Random(r, rows), make([]float32, d)
	fd, frows := inOrder(d), inOrder(rows)
	for name, do := range map[string]func(){
		"RMSNormBackward":       func() { RMSNormBackward(y, dy, x, w, rstd, d, fd) },
		"RMSNormWeightBackward": func() { RMSNormWeightBackward(dw, dy, x, rstd, d, frows) },
		"ReLU2Backward":         func() { ReLU2Backward(y, dy, x) },
		"Add":                   func() { Add(y, x, dy) },
		"Mul":                   func() { mul(y, x, dy) },
		"CopyColumns":           func() { CopyColumns(y, d/2, x, d, rows, d/2) },
	} {
		b.Run(name, func(b *testing.B) { check.Bytes(b, rows*d, do) })
	}
}
