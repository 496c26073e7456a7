package moe

import (
	"math/rand/v2"
	"testing"

	"firstbit/kernel"
	"firstbit/kernel/check"
)

func BenchmarkTopK(b *testing.B) {
	x := check.Random(rand.New(rand.NewPCG(1, 1)), 512*16)
	index := make([]int32, 512*2)
	check.Bytes(b, len(x), func() { topK(index, x, nil, 16, 2, tieLow) })
}

func BenchmarkGroupedDProb(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	const rows, f = 256, 128
	acc, h, p := check.Random(r, rows*f), check.Random(r, rows*f), check.Random(r, rows)
	dh, dprob := make([]float32, rows*f), make([]float32, rows)
	til := tiling{M: 16, N: 32, Sub: 8, Grid: 4}
	tiles := til.Tiles([]int32{0, 100, 256}, f)
	n, join := inOrder(8), inOrder(4)
	check.Bytes(b, len(acc), func() {
		groupedDProb(dprob, dh, acc, h, p, f, til, tiles, func(int) kernel.Fold { return n }, func(int) kernel.Fold { return join }, nil)
	})
}

func BenchmarkAuxLoss(b *testing.B) {
	x := check.Random(rand.New(rand.NewPCG(1, 1)), 512*16)
	check.Bytes(b, len(x), func() { auxLoss(x, make([]int32, 16), 16, 8, 1, inOrder, inOrder(16), inOrder(8), nil) })
}

// BenchmarkGrouped is the experts' products over 512 rows of 8 experts, one without rows.
func BenchmarkGrouped(b *testing.B) {
	const rows, d, f = 512, 64, 128
	offsets := []int32{0, 90, 130, 130, 250, 300, 411, 480, 512}
	r := rand.New(rand.NewPCG(1, 1))
	x, w, y, dw := check.Random(r, rows*d), check.Random(r, 8*d*f), make([]float32, rows*f), make([]float32, 8*d*f)
	fold := inOrder(d)
	folds := make([]kernel.Fold, rows)
	for n := range folds {
		folds[n] = inOrder(n)
	}
	run := func(name string, do func()) {
		b.Run(name, func(b *testing.B) {
			defer check.OneProcessor()()
			b.ReportAllocs()
			for b.Loop() {
				do()
			}
			check.Flops(b, 2*rows*d*f)
		})
	}
	run("NN", func() { groupedMatMul(y, x, w, offsets, d, f, false, fold) })
	run("NT", func() { groupedMatMul(y, x, w, offsets, d, f, true, fold) })
	run("weight", func() { groupedMatMulWeight(dw, x, y, offsets, d, f, func(n int) kernel.Fold { return folds[n] }) })
}

func BenchmarkSortSlots(b *testing.B) {
	const k = 4
	index, start := make([]int32, 4096), make([]int32, 4096)
	for i := range start {
		start[i] = int32((i * 7) % 13)
	}
	for b.Loop() {
		copy(index, start)
		sortSlots(index, k)
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
	topK(index, scores, nil, e, k, tieLow)
	kernel.Permute(order, inverse, offsets, index, e, k)
	slots, chosen, sum, prob := check.Random(r, rows*k*d), check.Random(r, rows*k), make([]float32, rows), make([]float32, rows*k)
	fe, fk, frows := inOrder(e), inOrder(k), inOrder(rows)
	for _, c := range []struct {
		name string
		n    int
		do   func()
	}{
		{"Sigmoid", rows * e, func() { sigmoid(out, scores) }},
		{"Softmax", rows * e, func() { softmax(out, scores, e, fe) }},
		{"SoftmaxBackward", rows * e, func() { softmaxBackward(out, dout, scores, e, fe) }},
		{"ZLoss", rows * e, func() { zLoss(scores, e, 1, fe, frows) }},
		{"ZLossBackward", rows * e, func() { zLossBackward(out, scores, e, 1, 1, fe) }},
		{"ProbShare", rows * e, func() { probShare(out, scores, e, fe) }},
		{"Normalize", rows * k, func() { normalize(prob, sum, chosen, k, 1, fk) }},
		{"Permute", rows * k, func() { kernel.Permute(order, inverse, offsets, index, e, k) }},
		{"GatherRows", rows * k * d, func() { gatherRows(slots, x, order, k, d) }},
		{"CombineSlots", rows * k * d, func() { combineSlots(y, slots, inverse, k, d, fk) }},
	} {
		b.Run(c.name, func(b *testing.B) { check.Bytes(b, c.n, c.do) })
	}
}
