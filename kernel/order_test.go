package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
	"firstbit/reduce"
)

var orders = []string{"seq", "reverse", "pairwise", "blocked(4)", "lanes(8)", "splitk(4)", "splitk(3,reverse)", "perm(7)"}

func ones32(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1
	}
	return x
}

// requireOrder demands that a kernel's sum, asked as a black box, is the tree.
func requireOrder(t *testing.T, what string, n int, want reduce.Tree, acc lowp.Format, sum reduce.Summer) {
	t.Helper()
	got, err := reduce.Reveal(n, sum, acc)
	require.NoError(t, err, what)
	require.True(t, got.Verified, "%s: replay", what)
	require.True(t, got.Tree.Equal(want), "%s: revealed %s, the plan says %s", what, got.Tree, want)
}

// Reveal(kernel with plan p) == p.Order.Tree(n), for every kernel that adds.
func TestKernelsAddByTheirPlan(t *testing.T) {
	for _, order := range orders {
		for _, n := range []int{1, 2, 7, 19} {
			f, tree := foldOf(order, n), reduce.MustOrder(order).Tree(n)
			at := func(kernel string) string { return fmt.Sprintf("%s by %s over %d", kernel, order, n) }
			one := make([]float32, 1)
			for name, sum := range summers(f, n) {
				requireOrder(t, at(name), n, tree, lowp.FP32, sum)
			}
			requireOrder(t, at("matmul in bf16"), n, tree, lowp.BF16, func(x []float32) float32 {
				MatMul(one, 1, RowMajor(x, n), RowMajor(ones32(n), 1), 1, 1, n, Fold{Program: f.Program, Acc: lowp.BF16})
				return one[0]
			})
		}
	}
	// The negative control: another order is another tree.
	f := foldOf("seq", 7)
	got, err := reduce.Reveal(7, func(x []float32) float32 { return Sum(f, x, 1) }, lowp.FP32)
	require.NoError(t, err)
	require.False(t, got.Tree.Equal(reduce.Pairwise.Tree(7)))
}

// summers are the kernels, each arranged to add exactly the n values it is given.
func summers(f Fold, n int) map[string]reduce.Summer {
	same := func(int) Fold { return f }
	return map[string]reduce.Summer{
		"sum": func(x []float32) float32 { return Sum(f, x, 1) },
		"dot": func(x []float32) float32 { return Dot(f, x, 1, ones32(n), 1) },
		"sum rows": func(x []float32) float32 {
			y := make([]float32, 1)
			SumRows(f, y, x, 1)
			return y[0]
		},
		"matmul, inside a tile": func(x []float32) float32 { // element (4,2) of a 6×3 product
			a, b, c := make([]float32, 6*n), ones32(n*3), make([]float32, 18)
			copy(a[4*n:], x)
			MatMul(c, 3, RowMajor(a, n), RowMajor(b, 3), 6, 3, n, f)
			return c[4*3+2]
		},
		"matmul NT": func(x []float32) float32 {
			c := make([]float32, 1)
			MatMul(c, 1, RowMajor(ones32(n), n), RowMajor(x, n).T(), 1, 1, n, f)
			return c[0]
		},
		"matmul TN": func(x []float32) float32 {
			c := make([]float32, 1)
			MatMul(c, 1, RowMajor(x, 1).T(), RowMajor(ones32(n), 1), 1, 1, n, f)
			return c[0]
		},
		"grouped weight": func(x []float32) float32 {
			dw := make([]float32, 1)
			GroupedMatMulWeight(dw, x, ones32(n), []int32{0, int32(n)}, 1, 1, same)
			return dw[0]
		},
		"combine": func(x []float32) float32 {
			y, inverse := make([]float32, 1), make([]int32, n)
			for i := range inverse {
				inverse[i] = int32(i)
			}
			CombineSlots(y, x, inverse, n, 1, f)
			return y[0]
		},
		"embedding": func(x []float32) float32 {
			dw := make([]float32, 1)
			EmbeddingBackward(dw, x, make([]int32, n), 1, same)
			return dw[0]
		},
		"grouped weight of all": func(x []float32) float32 {
			dw, token := make([]float32, 1), make([]int32, n)
			for i := range token {
				token[i] = int32(i)
			}
			GroupedMatMulWeightAll(dw, x, ones32(n), []int32{0, int32(n)}, token, 1, 1, f)
			return dw[0]
		},
		"embedding of all": func(x []float32) float32 {
			dw := make([]float32, 1)
			EmbeddingBackwardAll(dw, x, make([]int32, n), 1, f)
			return dw[0]
		},
		"decay by token": func(x []float32) float32 {
			da := make([]float32, 1)
			DecayBackwardByToken(da, x, ones32(n), []float32{0}, f)
			return -da[0]
		},
		"norm weight": func(x []float32) float32 {
			dw := make([]float32, 1)
			RMSNormWeightBackward(dw, x, ones32(n), ones32(n), 1, f)
			return dw[0]
		},
		"aux loss over CTAs": func(x []float32) float32 {
			return AuxLoss(x, []int32{1}, 1, n, 1, inOrder, inOrder(1), f, nil)
		},
		"aux loss within a CTA": func(x []float32) float32 {
			return AuxLoss(x, []int32{1}, 1, 1, 1, same, inOrder(1), inOrder(1), nil)
		},
	}
}

// Of attention's sums: p·v over the keys, and dq, over the keys by its own order.
func TestAttentionAddsByItsPlan(t *testing.T) {
	const n = 8
	for _, order := range orders {
		tree := reduce.MustOrder(order).Tree(n)
		// One head of width 1: q = 0 makes every p of the last query 1/8, exact; v = 8·x gives back x.
		requireOrder(t, "p·v by "+order, n, tree, lowp.FP32, func(x []float32) float32 {
			v, o, probs := make([]float32, n), make([]float32, n), make([]float32, n*n)
			Scale(v, x, 8)
			folds := AttentionFolds{P: inOrder(1), Keys: foldOf(order, n)}
			Attention(o, probs, make([]float32, n), ones32(n), v, AttentionShape{B: 1, T: n, H: 1, KV: 1, P: 1}, 1, folds)
			return o[n-1]
		})
		// dq of the last query is Σ_j ds_j·k_j: p = 1 and dp = 0 or 1 would mix the sums, so ds is 1 by
		// p = 1, dp − Σp·dp = 1 − 0 for keys whose p·dp cancels: v = ±1 in turn.
		requireOrder(t, "dq by "+order, n, tree, lowp.FP32, func(x []float32) float32 {
			v, k, probs := make([]float32, n), make([]float32, n), make([]float32, n*n)
			for j := range n {
				v[j] = float32(1 - 2*(j%2))
				k[j] = x[j] * v[j]
				probs[(n-1)*n+j] = 1
			}
			dq, dk, dv := make([]float32, n), make([]float32, n), make([]float32, n)
			folds := AttentionFolds{P: inOrder(1), Keys: inOrder(n), DQ: foldOf(order, n), Queries: inOrder(n)}
			AttentionBackward(dq, dk, dv, ones32(n), ones32(n), k, v, probs, AttentionShape{B: 1, T: n, H: 1, KV: 1, P: 1}, 1, folds)
			return dq[n-1]
		})
	}
}

// The epilogue's tree is its tiles' order and each tile's walk, and nothing else.
func TestDProbAddsByItsTiles(t *testing.T) {
	til := Tiling{M: 2, N: 8, Sub: 2, Grid: 3}
	const f = 21
	for _, tileOrder := range []string{"seq", "reverse", "given(2 0 1)", "pairwise"} {
		for walk := range 8 {
			reverse := []bool{walk&1 > 0, walk&2 > 0, walk&4 > 0}
			want := DProbTree(f, til, reduce.Seq, reduce.MustOrder(tileOrder), reverse)
			requireOrder(t, fmt.Sprintf("dprob tiles %s walk %03b", tileOrder, walk), f, want, lowp.FP32, func(x []float32) float32 {
				tiles := til.Tiles([]int32{0, 1}, f)
				for i := range tiles {
					tiles[i].Reverse = reverse[i]
				}
				dprob, dh := make([]float32, 1), make([]float32, f)
				GroupedDProb(dprob, dh, x, ones32(f), ones32(1), f, til, tiles, inOrder, func(int) Fold { return foldOf(tileOrder, 3) }, nil)
				return dprob[0]
			})
		}
	}
}

func TestDispatchAlternatesByPlaceInItsCTA(t *testing.T) {
	til := Tiling{M: 1, N: 1, Sub: 1, Grid: 2}
	tiles := til.Tiles([]int32{0, 3}, 2)
	til.Dispatch(tiles, nil)
	var static []bool
	for _, x := range tiles {
		static = append(static, x.Reverse)
	}
	require.Equal(t, []bool{false, false, true, true, false, false}, static)
	til.Dispatch(tiles, []int{5, 4, 3, 2, 1, 0})
	require.True(t, tiles[3].Reverse && tiles[2].Reverse && !tiles[5].Reverse)
}

// MatMul against its definition, bit for bit: orders, odd sizes, formats of partial sums, layouts,
// slices at odd alignment, any number of processors.
func TestMatMulIsItsDefinition(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	r := rand.New(rand.NewPCG(1, 2))
	for _, procs := range []int{1, 4} {
		runtime.GOMAXPROCS(procs)
		for _, order := range orders {
			for _, size := range [][3]int{{1, 1, 1}, {3, 5, 7}, {4, 2, 16}, {9, 6, 33}, {65, 67, 70}} {
				for _, acc := range []Fold{{Acc: lowp.FP32}, {Acc: lowp.BF16}, {Acc: lowp.FP16}, {Acc: lowp.FP32, FMA: true}} {
					if size[0] == 65 && (acc.FMA || acc.Acc != lowp.FP32) {
						continue
					}
					acc.Program = reduce.MustOrder(order).Program(size[2])
					checkMatMul(t, r, size[0], size[1], size[2], acc)
				}
			}
		}
	}
}

func checkMatMul(t *testing.T, r *rand.Rand, m, n, k int, f Fold) {
	t.Helper()
	offset := r.IntN(3) // a slice that starts inside a word of four
	a, b := random32(r, m*k+offset)[offset:], random32(r, k*n+offset)[offset:]
	for name, ops := range map[string][2]Mat[float32]{
		"NN": {RowMajor(a, k), RowMajor(b, n)}, "NT": {RowMajor(a, k), RowMajor(b, k).T()}, "TN": {RowMajor(a, m).T(), RowMajor(b, n)},
	} {
		got, want := make([]float32, m*n), make([]float32, m*n)
		MatMul(got, n, ops[0], ops[1], m, n, k, f)
		MatMulNaive(want, n, ops[0], ops[1], m, n, k, f)
		requireSameBits(t, want, got, "%s %d×%d×%d acc %v fma %v", name, m, n, k, f.Acc, f.FMA)
	}
}

func random32(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func requireSameBits(t *testing.T, want, got []float32, format string, a ...any) {
	t.Helper()
	for i := range want {
		if math.Float32bits(want[i]) != math.Float32bits(got[i]) {
			t.Fatalf("%s: element %d: %08x, not %08x: %d ulps", fmt.Sprintf(format, a...), i,
				math.Float32bits(got[i]), math.Float32bits(want[i]), lowp.FP32.Ulps(want[i], got[i]))
		}
	}
}

// Fast paths of folds agree with the definition, at any alignment.
func TestFoldsAreTheirDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, order := range orders {
		for _, n := range []int{0, 1, 5, 64, 129} {
			for offset := range 3 {
				x := random32(r, 2*n+offset)[offset:]
				f := foldOf(order, n)
				want := Run(f, func(i int) float32 { return x[2*i] })
				require.Equal(t, math.Float32bits(want), math.Float32bits(Sum(f, x, 2)), "%s %d", order, n)
				require.Equal(t, math.Float32bits(want), math.Float32bits(reduce.MustOrder(order).Tree(n).Sum(every2(x), lowp.FP32)))
			}
		}
	}
	require.True(t, math.Signbit(float64(Sum(inOrder(0), []float32{}, 1))), "the empty sum is −0")
	neg := []float32{float32(math.Copysign(0, -1))}
	require.True(t, math.Signbit(float64(Sum(inOrder(1), neg, 1))), "−0 stays −0")
}

// Partial sums held in a narrow format: leaves enter rounded to it, and the tree says the bits.
func TestNarrowSumsAreTheirTree(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, acc := range []lowp.Format{lowp.BF16, lowp.FP16} {
		for _, order := range orders {
			for _, n := range []int{1, 2, 9, 33} {
				f := Fold{Program: reduce.MustOrder(order).Program(n), Acc: acc}
				for range 50 {
					x, y := random32(r, n), make([]float32, 1)
					want := reduce.MustOrder(order).Tree(n).Sum(x, acc)
					require.Equal(t, math.Float32bits(want), math.Float32bits(Sum(f, x, 1)), "%s n=%d %v", order, n, acc)
					MatMul(y, 1, RowMajor(x, n), RowMajor(ones32(n), 1), 1, 1, n, f)
					require.Equal(t, math.Float32bits(want), math.Float32bits(y[0]), "matmul %s n=%d %v", order, n, acc)
					SumRows(f, y, x, 1)
					require.Equal(t, math.Float32bits(want), math.Float32bits(y[0]), "rows %s n=%d %v", order, n, acc)
				}
			}
		}
	}
}

func every2(x []float32) []float32 {
	var y []float32
	for i := 0; i < len(x); i += 2 {
		y = append(y, x[i])
	}
	return y
}

// docs/facts.md, Kernels: which of two equal experts each kernel takes.
func TestTopKTies(t *testing.T) {
	for _, c := range []struct{ a, b, naive int }{{1, 2, 2}, {3, 4, 4}, {8, 16, 16}, {1, 32, 32}} {
		scores := make([]float32, 40)
		scores[c.a], scores[c.b] = 1, 1
		index := make([]int32, 1)
		TopK(index, scores, nil, 40, 1, TieNaive)
		require.EqualValues(t, c.naive, index[0], "naive {%d,%d}", c.a, c.b)
		TopK(index, scores, nil, 40, 1, TieLow)
		require.EqualValues(t, c.a, index[0], "radix {%d,%d}", c.a, c.b)
	}
	index := make([]int32, 3)
	TopK(index, []float32{0.1, 0.5, 0.3, 0.4}, []float32{1, 0, 0, 0}, 4, 3, TieLow)
	require.Equal(t, []int32{0, 1, 3}, index, "descending by score + bias")
	nan := float32(math.NaN())
	TopK(index, []float32{nan, 1, nan, 2}, nil, 4, 3, TieLow)
	require.Equal(t, []int32{3, 1, 0}, index, "NaN is below every number")
}
