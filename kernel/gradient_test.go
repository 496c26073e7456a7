package kernel

import (
	"math/rand/v2"
	"testing"

	"firstbit/kernel/check"
)

func TestMatMulGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	m, n, k := 5, 7, 6
	a, b, y := check.Normal(r, m*k), check.Normal(r, k*n), make([]float64, m*n)
	f := func() []float64 { MatMul(y, n, RowMajor(a, k), RowMajor(b, n), m, n, k, inOrder(k)); return y }
	check.Gradient(t, "da", a, f, func(dy []float64) []float64 {
		da := make([]float64, m*k)
		MatMul(da, k, RowMajor(dy, n), RowMajor(b, n).T(), m, k, n, inOrder(n))
		return da
	})
	check.Gradient(t, "db", b, f, func(dy []float64) []float64 {
		db := make([]float64, k*n)
		MatMul(db, n, RowMajor(a, k).T(), RowMajor(dy, n), k, n, m, inOrder(m))
		return db
	})
}
