package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"firstbit/kernel/check"
	"firstbit/lowp"
	"firstbit/reduce"
)

// some draws which of n tokens are present, ascending.
func some(r *rand.Rand, n int, share float64) []int32 {
	var at []int32
	for i := range n {
		if r.Float64() < share {
			at = append(at, int32(i))
		}
	}
	return at
}

// What is absent is taken out of the tree: by every order, in wide and narrow formats, however few are present.
func TestPresentSumsAreTheirGraftedTree(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 1))
	const d, m = 3, 5
	for _, order := range check.Orders {
		for _, n := range []int{1, 7, 32, 61} {
			for _, acc := range []lowp.Format{lowp.FP32, lowp.BF16} {
				f := Fold{Program: reduce.MustOrder(order).Program(n), Acc: acc}
				for _, share := range []float64{0, 0.1, 0.5, 1} {
					at := fmt.Sprintf("%s over %d in %s, %g present", order, n, acc, share)
					present, x := some(r, n, share), check.Random(r, n*m)
					want := make([]float32, d)
					for j := range want {
						want[j] = check.Grafted(order, n, present, func(i int) float32 { return x[int(present[i])*m+j] }, acc)
					}
					got := check.Random(r, d)
					SumPresent(f, got, x, m, present)
					check.SameBits(t, want, got, "%s", at)
				}
			}
		}
	}
}

// A product over tokens is the same however the sequences are dealt to shards.
func TestShardsOfAProductAreSubtrees(t *testing.T) {
	const rows, d = check.ShardB * check.ShardT, 3
	check.Shards(t, func(r *rand.Rand) (canonical, controls map[string]check.Shardable) {
		x, y := check.Random(r, rows*d), check.Random(r, rows*d)
		product := func(order func(n int) reduce.Order) map[string]check.Shardable {
			return map[string]check.Shardable{"product": func(lo, hi int) []float32 {
				n, dw := (hi-lo)*check.ShardT, make([]float32, d*d)
				MatMul(dw, d, RowMajor(x[lo*check.ShardT*d:][:n*d], d).T(), RowMajor(y[lo*check.ShardT*d:][:n*d], d), d, d, n, Fold{Program: order(n).Program(n)})
				return dw
			}}
		}
		return product(func(int) reduce.Order { return reduce.Blocked(check.ShardT) }), product(func(int) reduce.Order { return reduce.Seq })
	})
}
