package kernel

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

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
				x := random32(r, n+3)[r.IntN(3):][:n]
				squares := make([]float32, n)
				for i, v := range x {
					squares[i] = v * v
				}
				f := foldOf(order, n)
				f.Acc = acc
				requireSameBits(t, []float32{reduce.MustOrder(order).Tree(n).Sum(squares, acc)}, []float32{SumSquares(x, f)}, "%s of %d", order, n)
				if inLanes(f) {
					fast++
				}
			}
		}
	}
	require.Positive(t, fast)
	x := random32(r, 500)
	require.NotEqual(t, SumSquares(x, foldOf("lanes(8)", 500)), SumSquares(x, foldOf("seq", 500)), "negative control")
}
