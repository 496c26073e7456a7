package kernel

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"firstbit/kernel/check"
)

const benchN = 256

// benchMatMul times a product and the plain register tile in turn, so that what else the machine
// does hits both, and reports the product's speed and how it stands beside the tile's.
func benchMatMul(b *testing.B, order string, pick func(x, y Mat[float32]) (Mat[float32], Mat[float32])) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r := rand.New(rand.NewPCG(1, 1))
	x, y, c := check.Random(r, benchN*benchN), check.Random(r, benchN*benchN), make([]float32, benchN*benchN)
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
	x, y, c := check.Random(r, benchN*benchN), check.Random(r, benchN*benchN), make([]float32, benchN*benchN)
	for b.Loop() {
		tile4x2(c, x, y, benchN)
	}
	check.Flops(b, 2*benchN*benchN*benchN)
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
