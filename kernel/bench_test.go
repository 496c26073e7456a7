package kernel

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

const benchN = 256

func flops(b *testing.B, perOp float64) {
	b.ReportMetric(perOp*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

// benchMatMul times a product and the plain register tile in turn, so that what else the machine
// does hits both, and reports the product's speed and how it stands beside the tile's.
func benchMatMul(b *testing.B, order string, pick func(x, y Mat[float32]) (Mat[float32], Mat[float32])) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r := rand.New(rand.NewPCG(1, 1))
	x, y, c := random32(r, benchN*benchN), random32(r, benchN*benchN), make([]float32, benchN*benchN)
	m, n := pick(RowMajor(x, benchN), RowMajor(y, benchN))
	f := foldOf(order, benchN)
	b.ReportAllocs()
	var product, tile time.Duration
	for b.Loop() {
		start := time.Now()
		MatMul(c, benchN, m, n, benchN, benchN, benchN, f)
		product += time.Since(start)
		start = time.Now()
		tile4x2(c, x, y, benchN)
		tile += time.Since(start)
	}
	b.ReportMetric(2*benchN*benchN*benchN*float64(b.N)/product.Seconds()/1e9, "GFLOP/s")
	b.ReportMetric(tile.Seconds()/product.Seconds(), "×tile4x2")
}

func BenchmarkMatMulNN(b *testing.B) {
	benchMatMul(b, "seq", func(x, y Mat[float32]) (Mat[float32], Mat[float32]) { return x, y })
}
func BenchmarkMatMulNT(b *testing.B) {
	benchMatMul(b, "seq", func(x, y Mat[float32]) (Mat[float32], Mat[float32]) { return x, y.T() })
}
func BenchmarkMatMulTN(b *testing.B) {
	benchMatMul(b, "seq", func(x, y Mat[float32]) (Mat[float32], Mat[float32]) { return x.T(), y })
}
func BenchmarkMatMulBlocked64(b *testing.B) {
	benchMatMul(b, "blocked(64)", func(x, y Mat[float32]) (Mat[float32], Mat[float32]) { return x, y })
}
func BenchmarkMatMulPerm(b *testing.B) {
	benchMatMul(b, "perm(7)", func(x, y Mat[float32]) (Mat[float32], Mat[float32]) { return x, y })
}

// BenchmarkTile4x2 is the yardstick: a plain Go product, a 4×2 register tile over row-major
// operands, nothing packed.
func BenchmarkTile4x2(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	x, y, c := random32(r, benchN*benchN), random32(r, benchN*benchN), make([]float32, benchN*benchN)
	for b.Loop() {
		tile4x2(c, x, y, benchN)
	}
	flops(b, 2*benchN*benchN*benchN)
}

func tile4x2(c, x, y []float32, n int) {
	for i := 0; i < n; i += 4 {
		a0, a1, a2, a3 := x[i*n:][:n], x[(i+1)*n:][:n], x[(i+2)*n:][:n], x[(i+3)*n:][:n]
		for j := 0; j < n; j += 2 {
			var c00, c01, c10, c11, c20, c21, c30, c31 float32
			for k := range n {
				b0, b1 := y[k*n+j], y[k*n+j+1]
				c00 += float32(a0[k] * b0)
				c01 += float32(a0[k] * b1)
				c10 += float32(a1[k] * b0)
				c11 += float32(a1[k] * b1)
				c20 += float32(a2[k] * b0)
				c21 += float32(a2[k] * b1)
				c30 += float32(a3[k] * b0)
				c31 += float32(a3[k] * b1)
			}
			c[i*n+j], c[i*n+j+1], c[(i+1)*n+j], c[(i+1)*n+j+1] = c00, c01, c10, c11
			c[(i+2)*n+j], c[(i+2)*n+j+1], c[(i+3)*n+j], c[(i+3)*n+j+1] = c20, c21, c30, c31
		}
	}
}

// benchBytes times a kernel over n float32 read.
func benchBytes(b *testing.B, n int, f func()) {
	b.SetBytes(int64(4 * n))
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
}

func BenchmarkRMSNorm(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	x, w, y, rstd := random32(r, 512*128), random32(r, 128), make([]float32, 512*128), make([]float32, 512)
	f := inOrder(128)
	benchBytes(b, len(x), func() { RMSNorm(y, rstd, x, w, 128, 1e-5, f) })
}

func BenchmarkReLU2(b *testing.B) {
	x := random32(rand.New(rand.NewPCG(1, 1)), 1<<16)
	y := make([]float32, len(x))
	benchBytes(b, len(x), func() { ReLU2(y, x) })
}

func BenchmarkCrossEntropy(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	x, targets := random32(r, 64*512), make([]int32, 64)
	loss, lse, f := make([]float32, 64), make([]float32, 64), inOrder(512)
	benchBytes(b, len(x), func() { CrossEntropy(loss, lse, x, targets, 512, f) })
}

func BenchmarkAttention(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	s := AttentionShape{B: 1, T: 64, H: 4, KV: 2, P: 32}
	q, k, v := random32(r, 64*128), random32(r, 64*64), random32(r, 64*64)
	o, probs := make([]float32, 64*128), make([]float32, 4*64*64)
	dq, dk, dv := make([]float32, 64*128), make([]float32, 64*64), make([]float32, 64*64)
	folds := AttentionFolds{P: inOrder(32), Keys: inOrder(64), DQ: foldOf("splitk(4)", 64), Queries: inOrder(128)}
	b.Run("forward", func(b *testing.B) {
		benchBytes(b, len(q), func() { Attention(o, probs, q, k, v, s, 0.2, folds) })
	})
	b.Run("backward", func(b *testing.B) {
		benchBytes(b, len(q), func() { AttentionBackward(dq, dk, dv, o, q, k, v, probs, s, 0.2, folds) })
	})
}

func BenchmarkTopK(b *testing.B) {
	x := random32(rand.New(rand.NewPCG(1, 1)), 512*16)
	index := make([]int32, 512*2)
	benchBytes(b, len(x), func() { TopK(index, x, nil, 16, 2, TieLow) })
}

func BenchmarkGroupedDProb(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	const rows, f = 256, 128
	acc, h, p := random32(r, rows*f), random32(r, rows*f), random32(r, rows)
	dh, dprob := make([]float32, rows*f), make([]float32, rows)
	til := Tiling{M: 16, N: 32, Sub: 8, Grid: 4}
	tiles := til.Tiles([]int32{0, 100, 256}, f)
	n, join := inOrder(8), inOrder(4)
	benchBytes(b, len(acc), func() {
		GroupedDProb(dprob, dh, acc, h, p, f, til, tiles, func(int) Fold { return n }, func(int) Fold { return join }, nil)
	})
}

func BenchmarkEmbeddingBackward(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	dy, ids, dw := random32(r, 512*64), make([]int32, 512), make([]float32, 256*64)
	for i := range ids {
		ids[i] = int32(r.IntN(256))
	}
	benchBytes(b, len(dy), func() { EmbeddingBackward(dw, dy, ids, 64, inOrder) })
}

func BenchmarkAuxLoss(b *testing.B) {
	x := random32(rand.New(rand.NewPCG(1, 1)), 512*16)
	benchBytes(b, len(x), func() { AuxLoss(x, make([]int32, 16), 16, 8, 1, inOrder, inOrder(16), inOrder(8), nil) })
}

func BenchmarkAdamW(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	w, m, v, g := random32(r, 1<<16), make([]float32, 1<<16), make([]float32, 1<<16), random32(r, 1<<16)
	h := AdamWStep{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1, Bias1: 0.1, Bias2: 0.05, GradScale: 1}
	benchBytes(b, len(w), func() { AdamW(w, m, v, g, h) })
}

func BenchmarkSumSquares(b *testing.B) {
	x := random32(rand.New(rand.NewPCG(1, 1)), 1<<16)
	for _, order := range []string{"seq", "lanes(8)", "pairwise"} {
		f := foldOf(order, len(x))
		b.Run(order, func(b *testing.B) { benchBytes(b, len(x), func() { SumSquares(x, f) }) })
	}
}
