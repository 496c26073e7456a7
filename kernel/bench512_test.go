package kernel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"firstbit/kernel/check"
)

// BenchmarkProduct512 puts the product beside the yardstick at 512³, one after the other in one run, so that
// the ratio can be read: MatMul packs, the plain tile does not. On one processor.
func BenchmarkProduct512(b *testing.B) {
	const n = 512
	r := rand.New(rand.NewPCG(1, 1))
	x, y, c := check.Random(r, n*n), check.Random(r, n*n), make([]float32, n*n)
	mx, my := RowMajor(x, n), RowMajor(y, n)
	run := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			defer check.OneProcessor()()
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
			check.Flops(b, 2*n*n*n)
		})
	}
	run("tile4x2", func() { tile4x2(c, x, y, n) })
	for _, order := range []string{"seq", "reverse", "blocked(64)", "lanes(8)", "splitk(4)", "pairwise"} {
		f := foldOf(order, n)
		run("NN "+order, func() { MatMul(c, n, mx, my, n, n, n, f) })
	}
	seq := inOrder(n)
	b.Run("NN seq beside tile4x2", func(b *testing.B) { // in turn, the fastest of each: other work on the machine hits both
		defer check.OneProcessor()()
		f, plain, packed := inOrder(n), time.Hour, time.Hour
		for b.Loop() {
			start := time.Now()
			tile4x2(c, x, y, n)
			plain = min(plain, time.Since(start))
			start = time.Now()
			MatMul(c, n, mx, my, n, n, n, f)
			packed = min(packed, time.Since(start))
		}
		b.ReportMetric(plain.Seconds()/packed.Seconds(), "×tile4x2")
	})
	run("NT seq", func() { MatMul(c, n, mx, my.T(), n, n, n, seq) })
	run("TN seq", func() { MatMul(c, n, mx.T(), my, n, n, n, seq) })
}

// BenchmarkStepShapes is products of the shapes of a training step, few rows or columns among them, beside the
// plain loop in the same run. On one processor.
func BenchmarkStepShapes(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, s := range []struct {
		layout  string
		m, n, k int
	}{
		{"NN", 512, 64, 64}, {"NT", 512, 64, 64}, {"TN", 64, 64, 512},
		{"NN", 512, 256, 64}, {"NT", 512, 256, 64}, {"TN", 64, 256, 512},
		{"NN", 512, 64, 256}, {"NT", 512, 512, 128}, {"TN", 512, 128, 512},
		{"NT", 64, 64, 16}, {"NN", 512, 8, 64}, {"TN", 64, 8, 512}, {"NN", 126, 128, 64}, {"NT", 20, 64, 128},
		{"NN", 3, 64, 128}, {"NT", 3, 64, 128}, {"TN", 64, 128, 3}, {"NN", 1, 64, 64}, {"NT", 1, 64, 64},
		{"NN", 512, 1, 64}, {"NT", 512, 3, 64}, {"NT", 16, 16, 16}, {"TN", 16, 16, 16}, {"NT", 8, 8, 8}, {"NN", 2, 2, 16}, {"NN", 1, 1, 128},
	} {
		x, y, c, f := check.Random(r, s.m*s.k), check.Random(r, s.k*s.n), make([]float32, s.m*s.n), inOrder(s.k)
		mx, my := RowMajor(x, s.k), RowMajor(y, s.n)
		if s.layout == "NT" {
			my = RowMajor(y, s.k).T()
		}
		if s.layout == "TN" {
			mx = RowMajor(x, s.m).T()
		}
		b.Run(fmt.Sprintf("%s %d×%d×%d", s.layout, s.m, s.n, s.k), func(b *testing.B) {
			defer check.OneProcessor()()
			vector, plain := time.Hour, time.Hour
			repeat := max(1, 1<<16/(s.m*s.n*s.k))
			for b.Loop() {
				start := time.Now()
				for range repeat {
					MatMul(c, s.n, mx, my, s.m, s.n, s.k, f)
				}
				vector = min(vector, time.Since(start))
				start = time.Now()
				plainly(func() {
					for range repeat {
						MatMul(c, s.n, mx, my, s.m, s.n, s.k, f)
					}
				})
				plain = min(plain, time.Since(start))
			}
			b.ReportMetric(2*float64(s.m*s.n*s.k*repeat)/vector.Seconds()/1e9, "GFLOP/s")
			b.ReportMetric(plain.Seconds()/vector.Seconds(), "×plain")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func BenchmarkSumRows(b *testing.B) {
	const rows, d = 512, 128
	x, dw := check.Random(rand.New(rand.NewPCG(1, 1)), rows*d), make([]float32, d)
	for _, order := range []string{"seq", "pairwise"} {
		f := foldOf(order, rows)
		b.Run(order, func(b *testing.B) { check.Bytes(b, rows*d, func() { SumRows(f, dw, x, d) }) })
	}
}

// BenchmarkLanesOfABatch is what a leaf of a sum in eight lanes costs in a product, which adds up a batch of rows and columns at once, beside a
// sum of one vector in order. Both are timed in turn, and the shortest of many counts.
func BenchmarkLanesOfABatch(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const rows, columns, k = 16, 32, 256
	r := rand.New(rand.NewPCG(1, 1))
	x, y, c := check.Random(r, rows*k), check.Random(r, k*columns), make([]float32, rows*columns)
	lanes, inOrder := foldOf("lanes(8)", k), foldOf("seq", rows*k)
	var batch, vector time.Duration
	for range b.N {
		begun := time.Now()
		MatMul(c, columns, RowMajor(x, k), RowMajor(y, columns), rows, columns, k, lanes)
		middle := time.Now()
		c[0] += Sum(inOrder, x, 1)
		end := time.Now()
		if took := middle.Sub(begun); batch == 0 || took < batch {
			batch = took
		}
		if took := end.Sub(middle); vector == 0 || took < vector {
			vector = took
		}
	}
	b.ReportMetric(float64(batch)/(rows*columns*k)/(float64(vector)/(rows*k)), "of_in_order")
	b.ReportMetric(0, "ns/op")
}
