package kernel

import (
	"math/rand/v2"
	"testing"

	"firstbit/kernel/check"
)

func BenchmarkTopK(b *testing.B) {
	x := check.Random(rand.New(rand.NewPCG(1, 1)), 512*16)
	index := make([]int32, 512*2)
	check.Bytes(b, len(x), func() { TopK(index, x, nil, 16, 2, TieLow) })
}

func BenchmarkGroupedDProb(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	const rows, f = 256, 128
	acc, h, p := check.Random(r, rows*f), check.Random(r, rows*f), check.Random(r, rows)
	dh, dprob := make([]float32, rows*f), make([]float32, rows)
	til := Tiling{M: 16, N: 32, Sub: 8, Grid: 4}
	tiles := til.Tiles([]int32{0, 100, 256}, f)
	n, join := inOrder(8), inOrder(4)
	check.Bytes(b, len(acc), func() {
		GroupedDProb(dprob, dh, acc, h, p, f, til, tiles, func(int) Fold { return n }, func(int) Fold { return join }, nil)
	})
}

func BenchmarkAuxLoss(b *testing.B) {
	x := check.Random(rand.New(rand.NewPCG(1, 1)), 512*16)
	check.Bytes(b, len(x), func() { AuxLoss(x, make([]int32, 16), 16, 8, 1, inOrder, inOrder(16), inOrder(8), nil) })
}

// BenchmarkGrouped is the experts' products over 512 rows of 8 experts, one without rows.
func BenchmarkGrouped(b *testing.B) {
	const rows, d, f = 512, 64, 128
	offsets := []int32{0, 90, 130, 130, 250, 300, 411, 480, 512}
	r := rand.New(rand.NewPCG(1, 1))
	x, w, y, dw := check.Random(r, rows*d), check.Random(r, 8*d*f), make([]float32, rows*f), make([]float32, 8*d*f)
	fold := inOrder(d)
	folds := make([]Fold, rows)
	for n := range folds {
		folds[n] = inOrder(n)
	}
	run := func(name string, do func()) {
		b.Run(name, func(b *testing.B) {
			defer oneProcessor()()
			b.ReportAllocs()
			for b.Loop() {
				do()
			}
			flops(b, 2*rows*d*f)
		})
	}
	run("NN", func() { GroupedMatMul(y, x, w, offsets, d, f, false, fold) })
	run("NT", func() { GroupedMatMul(y, x, w, offsets, d, f, true, fold) })
	run("weight", func() { GroupedMatMulWeight(dw, x, y, offsets, d, f, func(n int) Fold { return folds[n] }) })
}

func BenchmarkSortSlots(b *testing.B) {
	const k = 4
	index, start := make([]int32, 4096), make([]int32, 4096)
	for i := range start {
		start[i] = int32((i * 7) % 13)
	}
	for b.Loop() {
		copy(index, start)
		SortSlots(index, k)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(index)/k), "ns/row")
}

// BenchmarkRoutes is the kernels over rows that have no benchmark of their own.
func BenchmarkRoutes(b *testing.B) {
	const rows, d, e, k = 512, 128, 16, 2
	r := rand.New(rand.NewPCG(1, 1))
	x, y := check.Random(r, rows*d), make([]float32, rows*d)
	scores, out, dout := check.Random(r, rows*e), make([]float32, rows*e), check.Random(r, rows*e)
	index, order, inverse, offsets := make([]int32, rows*k), make([]int32, rows*k), make([]int32, rows*k), make([]int32, e+1)
	TopK(index, scores, nil, e, k, TieLow)
	Permute(order, inverse, offsets, index, e, k)
	slots, chosen, sum, prob := check.Random(r, rows*k*d), check.Random(r, rows*k), make([]float32, rows), make([]float32, rows*k)
	fe, fk, frows := inOrder(e), inOrder(k), inOrder(rows)
	for _, c := range []struct {
		name string
		n    int
		do   func()
	}{
		{"Sigmoid", rows * e, func() { Sigmoid(out, scores) }},
		{"Softmax", rows * e, func() { Softmax(out, scores, e, fe) }},
		{"SoftmaxBackward", rows * e, func() { SoftmaxBackward(out, dout, scores, e, fe) }},
		{"ZLoss", rows * e, func() { ZLoss(scores, e, 1, fe, frows) }},
		{"ZLossBackward", rows * e, func() { ZLossBackward(out, scores, e, 1, 1, fe) }},
		{"ProbShare", rows * e, func() { ProbShare(out, scores, e, fe) }},
		{"Normalize", rows * k, func() { Normalize(prob, sum, chosen, k, 1, fk) }},
		{"Permute", rows * k, func() { Permute(order, inverse, offsets, index, e, k) }},
		{"GatherRows", rows * k * d, func() { GatherRows(slots, x, order, k, d) }},
		{"CombineSlots", rows * k * d, func() { CombineSlots(y, slots, inverse, k, d, fk) }},
	} {
		b.Run(c.name, func(b *testing.B) { check.Bytes(b, c.n, c.do) })
	}
}
