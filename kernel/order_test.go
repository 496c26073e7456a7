package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel/check"
	"firstbit/lowp"
	"firstbit/reduce"
)

// Reveal(kernel with plan p) == p.Order.Tree(n), for every kernel that adds.
func TestKernelsAddByTheirPlan(t *testing.T) {
	for _, order := range check.Orders {
		for _, n := range []int{1, 2, 7, 19} {
			f, tree := foldOf(order, n), reduce.MustOrder(order).Tree(n)
			at := func(kernel string) string { return fmt.Sprintf("%s by %s over %d", kernel, order, n) }
			one := make([]float32, 1)
			for name, sum := range summers(f, n) {
				check.Order(t, at(name), n, tree, lowp.FP32, sum)
			}
			check.Order(t, at("matmul in bf16"), n, tree, lowp.BF16, func(x []float32) float32 {
				MatMul(one, 1, RowMajor(x, n), RowMajor(check.Ones(n), 1), 1, 1, n, Fold{Program: f.Program, Acc: lowp.BF16})
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
	return map[string]reduce.Summer{
		"sum": func(x []float32) float32 { return Sum(f, x, 1) },
		"dot": func(x []float32) float32 { return Dot(f, x, 1, check.Ones(n), 1) },
		"sum rows": func(x []float32) float32 {
			y := make([]float32, 1)
			SumRows(f, y, x, 1)
			return y[0]
		},
		"matmul, inside a tile": func(x []float32) float32 { // element (4,2) of a 6×3 product
			a, b, c := make([]float32, 6*n), check.Ones(n*3), make([]float32, 18)
			copy(a[4*n:], x)
			MatMul(c, 3, RowMajor(a, n), RowMajor(b, 3), 6, 3, n, f)
			return c[4*3+2]
		},
		"matmul NT": func(x []float32) float32 {
			c := make([]float32, 1)
			MatMul(c, 1, RowMajor(check.Ones(n), n), RowMajor(x, n).T(), 1, 1, n, f)
			return c[0]
		},
		"matmul TN": func(x []float32) float32 {
			c := make([]float32, 1)
			MatMul(c, 1, RowMajor(x, 1).T(), RowMajor(check.Ones(n), 1), 1, 1, n, f)
			return c[0]
		},
	}
}

// MatMul against its definition, bit for bit: orders, odd sizes, formats of partial sums, layouts,
// slices at odd alignment, any number of processors.
func TestMatMulIsItsDefinition(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	r := rand.New(rand.NewPCG(1, 2))
	for _, procs := range []int{1, 4} {
		runtime.GOMAXPROCS(procs)
		for _, order := range check.Orders {
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
	a, b := check.Random(r, m*k+offset)[offset:], check.Random(r, k*n+offset)[offset:]
	for name, ops := range map[string][2]Mat[float32]{
		"NN": {RowMajor(a, k), RowMajor(b, n)}, "NT": {RowMajor(a, k), RowMajor(b, k).T()}, "TN": {RowMajor(a, m).T(), RowMajor(b, n)},
	} {
		got, want := make([]float32, m*n), make([]float32, m*n)
		MatMul(got, n, ops[0], ops[1], m, n, k, f)
		matMulNaive(want, n, ops[0], ops[1], m, n, k, f)
		check.SameBits(t, want, got, "%s %d×%d×%d acc %v fma %v", name, m, n, k, f.Acc, f.FMA)
	}
}

// Fast paths of folds agree with the definition, at any alignment.
func TestFoldsAreTheirDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, order := range check.Orders {
		for _, n := range []int{0, 1, 5, 64, 129} {
			for offset := range 3 {
				x := check.Random(r, 2*n+offset)[offset:]
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
		for _, order := range check.Orders {
			for _, n := range []int{1, 2, 9, 33} {
				f := Fold{Program: reduce.MustOrder(order).Program(n), Acc: acc}
				for range 50 {
					x, y := check.Random(r, n), make([]float32, 1)
					want := reduce.MustOrder(order).Tree(n).Sum(x, acc)
					require.Equal(t, math.Float32bits(want), math.Float32bits(Sum(f, x, 1)), "%s n=%d %v", order, n, acc)
					MatMul(y, 1, RowMajor(x, n), RowMajor(check.Ones(n), 1), 1, 1, n, f)
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

// Negative control: the orders under test do give different sums.
func TestOrdersUnderTestDiffer(t *testing.T) {
	seen, x := map[uint32]bool{}, check.Random(rand.New(rand.NewPCG(5, 6)), 500)
	for _, order := range check.Orders {
		seen[math.Float32bits(Sum(foldOf(order, 500), x, 1))] = true
	}
	require.Greater(t, len(seen), 4)
}

func TestPermuteAllocatesNothing(t *testing.T) {
	index, order, inverse, offsets := make([]int32, 100), make([]int32, 100), make([]int32, 100), make([]int32, 51)
	for i := range index {
		index[i] = int32(i * 7 % 50)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { Permute(order, inverse, offsets, index, 50, 1) }))
}

// Orders of all sorts in all formats, stored and sent: every way a kernel has to add is the tree with these formats.
func TestUnusualFoldsAreTheirTree(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	orders := append([]string{"exact", "binned", "kahan", "neumaier", "blocked(4,pairwise,exact)", "lanes(4,seq)", "splitk(3,neumaier)", "segments(5,exact,perm(3))",
		"splitk(4,seq,kahan)", "blocked(8,tree((1 (0 2))))", "nccltree(0)", "nccltree(1,4)", "symmetric(3)", "ring(2)", "tree(" + nary.String() + ")"}, check.Orders...)
	for _, f := range []reduce.Formats{{}, {Acc: lowp.BF16}, {Store: lowp.BF16}, {Wire: lowp.BF16}, {Store: lowp.FP16, Wire: lowp.BF16}, {Acc: lowp.FP16, Wire: lowp.BF16}} {
		for _, order := range orders {
			o := reduce.MustOrder(order)
			for _, n := range []int{1, 5, 19, 24} {
				if !o.Fits(n) {
					continue
				}
				fold, tree := FoldOf(reduce.Reduction{Order: o, Formats: f}, n), o.Tree(n)
				for range 20 {
					x, y := check.Random(r, n), make([]float32, 1)
					want := []float32{tree.SumIn(x, f)}
					at := fmt.Sprintf("%s/%s n=%d", order, f, n)
					check.SameBits(t, want, []float32{Sum(fold, x, 1)}, "sum %s", at)
					SumRows(fold, y, x, 1)
					check.SameBits(t, want, y, "rows %s", at)
					MatMul(y, 1, RowMajor(x, n), RowMajor(check.Ones(n), 1), 1, 1, n, fold)
					check.SameBits(t, want, y, "matmul %s", at)
					in := make([][]float32, n)
					for i := range in {
						in[i] = x[i : i+1]
					}
					SumMembers(fold, y, in, 0)
					check.SameBits(t, want, y, "members %s", at)
				}
			}
		}
	}
}

// nary is a tree of 24 leaves with nodes of two, three and four kids.
var nary = reduce.Graft(reduce.MustOrder("tree(((3 0) (1 4 2 5)))").Tree(6), []reduce.Tree{quad(0), quad(4), quad(8), quad(12), quad(16), quad(20)})

func quad(at int) reduce.Tree {
	leaf := func(i int) reduce.Tree { return reduce.Tree{Leaf: at + i} }
	return reduce.Node(reduce.Node(leaf(2), leaf(0), leaf(3)), leaf(1))
}
