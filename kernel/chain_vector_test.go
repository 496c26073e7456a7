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

// plainly runs f without vector tiles.
func plainly(f func()) {
	defer func(v, w bool) { vectorised, fusing = v, w }(vectorised, fusing)
	vectorised, fusing = false, false
	f()
}

// fusedToo is a fold, and the fold with products fused into it.
func fusedToo(f Fold) []Fold {
	fused := f
	fused.FMA = true
	return []Fold{f, fused}
}

func needVectors(t *testing.T) {
	t.Helper()
	if !vectorised {
		t.Skip("no vector tiles on this processor")
	}
}

// edgy32 are numbers at which a processor that took liberties would be caught: zeros of both
// signs, denormals, the largest numbers, ones that nearly cancel. Infinities have a test of their own.
func edgy32(r *rand.Rand, n int) []float32 {
	x := check.Random(r, n)
	for i := range x {
		switch r.IntN(8) {
		case 0:
			x[i] = Negzero[float32]()
		case 1:
			x[i] = 0
		case 2:
			x[i] = math.Float32frombits(r.Uint32()&0x807fffff | 1) // denormal
		case 3:
			x[i] *= 1e-22 // whose products are denormal
		case 4:
			x[i] = float32(1+r.IntN(3)) / 4
		}
	}
	return x
}

// A layout lays a matrix of rows by cols down, in a slice that starts at an odd place: row-major or
// column-major, rows apart or not, or neither dimension side by side.
var layouts = []struct {
	name string
	make func(x []float32, rows, cols int) Mat[float32]
}{
	{"row-major", func(x []float32, rows, cols int) Mat[float32] { return RowMajor(x, cols) }},
	{"column-major", func(x []float32, rows, cols int) Mat[float32] { return RowMajor(x, rows).T() }},
	{"rows apart", func(x []float32, rows, cols int) Mat[float32] { return RowMajor(x, cols+3) }},
	{"columns apart", func(x []float32, rows, cols int) Mat[float32] { return Mat[float32]{x, 2 * cols, 2} }},
}

// Vector tiles against the plain loop and the definition, bit for bit: sizes about the tile's, layouts,
// orders, odd alignments, edgy numbers, any number of processors, and nothing written outside c.
func TestVectorTilesAreThePlainLoop(t *testing.T) {
	needVectors(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	r := rand.New(rand.NewPCG(31, 32))
	sizes := [][3]int{{1, 1, 1}, {6, 16, 1}, {5, 15, 2}, {7, 17, 3}, {12, 32, 33}, {13, 31, 20}, {1, 50, 9}, {50, 1, 9}, {11, 100, 64}, {130, 70, 65}}
	sizes = append(sizes, [3]int{packedRows, farApart + 1, 6}, [3]int{farApart + 1, packedPanel, 5}) // rows far apart: packed
	for _, procs := range []int{1, 3} {
		runtime.GOMAXPROCS(procs)
		for _, order := range check.Orders {
			for i, s := range sizes {
				if procs > 1 && i < len(sizes)-3 { // too small to share
					continue
				}
				for j, la := range layouts {
					for k, lb := range layouts {
						if i > 7 && (i+j+k)%4 > 0 { // larger ones by one layout of b for each of a
							continue
						}
						what := fmt.Sprintf("%s %v a %s b %s", order, s, la.name, lb.name)
						for _, f := range fusedToo(foldOf(order, s[2])) {
							checkVector(t, r, what, s[0], s[1], f, la.make, lb.make)
						}
					}
				}
			}
		}
	}
}

// Any sizes, orders and layouts.
func TestVectorTilesAtRandom(t *testing.T) {
	needVectors(t)
	r := rand.New(rand.NewPCG(43, 44))
	for range 1000 {
		m, n, k, la, lb := 1+r.IntN(60), 1+r.IntN(70), 1+r.IntN(50), layouts[r.IntN(len(layouts))], layouts[r.IntN(len(layouts))]
		order := check.Orders[r.IntN(len(check.Orders))]
		for _, f := range fusedToo(foldOf(order, k)) {
			checkVector(t, r, fmt.Sprintf("%s %d×%d×%d a %s b %s", order, m, n, k, la.name, lb.name), m, n, f, la.make, lb.make)
		}
	}
}

// An element of a full tile, of one that reaches back, and of one that is padded, asked as a black box.
func TestVectorTilesAddByTheirPlan(t *testing.T) {
	needVectors(t)
	for _, order := range check.Orders {
		for _, k := range []int{1, 2, 7, 19} {
			for _, at := range [][4]int{{8, 21, 5, 15}, {8, 21, 7, 20}, {3, 9, 2, 8}} { // m, n, row, column
				m, n, row, column := at[0], at[1], at[2], at[3]
				check.Order(t, fmt.Sprintf("%v by %s over %d", at, order, k), k, reduce.MustOrder(order).Tree(k), lowp.FP32, func(x []float32) float32 {
					a, c := make([]float32, m*k), make([]float32, m*n)
					copy(a[row*k:], x)
					MatMul(c, n, RowMajor(a, k), RowMajor(check.Ones(k*n), n), m, n, k, foldOf(order, k))
					return c[row*n+column]
				})
			}
		}
	}
}

// The plain loop is what other processors run: the tests of plans and definitions hold it here too.
func TestThePlainLoopWhereThereAreVectorTiles(t *testing.T) {
	needVectors(t)
	plainly(func() {
		TestKernelsAddByTheirPlan(t)
		TestMatMulIsItsDefinition(t)
		TestCausalIsItsDefinition(t)
	})
	require.True(t, vectorised)
}

func checkVector(t *testing.T, r *rand.Rand, what string, m, n int, f Fold, la, lb func([]float32, int, int) Mat[float32]) {
	t.Helper()
	k, ldc, at := f.N, n+r.IntN(3), r.IntN(4)
	a := la(edgy32(r, 2*(m+3)*(k+3)+at)[at:], m, k)
	b := lb(edgy32(r, 2*(n+3)*(k+3)+at)[at:], k, n)
	got, plain := check.Random(r, m*ldc+at)[at:], make([]float32, m*ldc)
	copy(plain, got) // what lies between the rows of c must stay
	naive := append([]float32(nil), got...)
	MatMul(got, ldc, a, b, m, n, k, f)
	plainly(func() { MatMul(plain, ldc, a, b, m, n, k, f) })
	matMulNaive(naive, ldc, a, b, m, n, k, f)
	check.SameBits(t, naive, plain, "plain %s", what)
	check.SameBits(t, plain, got, "vector %s", what)
}

// Sums that overflow are the same up to the first NaN, and each NaN is in the same place.
func TestVectorTilesOverflowAlike(t *testing.T) {
	needVectors(t)
	r := rand.New(rand.NewPCG(33, 34))
	const m, n, k = 13, 37, 40
	for _, order := range check.Orders {
		a, b := edgy32(r, m*k), edgy32(r, k*n)
		for range 9 {
			a[r.IntN(m*k)] = float32(math.Inf(1 - 2*r.IntN(2)))
			b[r.IntN(k*n)] = math.MaxFloat32
		}
		for _, f := range fusedToo(foldOf(order, k)) {
			got, want := make([]float32, m*n), make([]float32, m*n)
			MatMul(got, n, RowMajor(a, k), RowMajor(b, n), m, n, k, f)
			plainly(func() { MatMul(want, n, RowMajor(a, k), RowMajor(b, n), m, n, k, f) })
			infinite := 0
			for i := range want {
				if math.IsInf(float64(want[i]), 0) {
					infinite++
				}
				if want[i] != want[i] {
					want[i] = 0
					require.True(t, got[i] != got[i], "%s: element %d is a number", order, i)
					got[i] = 0
				}
			}
			require.NotZero(t, infinite)
			check.SameBits(t, want, got, "%s, fused %v", order, f.FMA)
		}
	}
}

// The negative control: a product that is not rounded before it is added, or an accumulator that starts
// at +0, gives other bits than these tests accept.
func TestVectorTilesNegativeControl(t *testing.T) {
	needVectors(t)
	r := rand.New(rand.NewPCG(35, 36))
	const m, n, k = 6, 16, 20
	a, b := RowMajor(check.Random(r, m*k), k), RowMajor(check.Random(r, k*n), n)
	got, fused := make([]float32, m*n), make([]float32, m*n)
	MatMul(got, n, a, b, m, n, k, inOrder(k))
	MatMul(fused, n, a, b, m, n, k, Fold{Program: reduce.Seq.Program(k), Acc: lowp.FP32, FMA: true})
	differ := 0
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(fused[i]) {
			differ++
		}
	}
	require.Greater(t, differ, m*n/4, "fusing must show")

	one, negative := make([]float32, m*n), make([]float32, 16)
	for i := range negative {
		negative[i] = Negzero[float32]()
	}
	MatMul(one, n, RowMajor(check.Ones(m), 1), RowMajor(negative, n), m, n, 1, inOrder(1))
	for i, v := range one {
		require.True(t, math.Signbit(float64(v)), "element %d: 1·−0 alone is −0", i)
	}
}

// A fold that rounds its partial sums never runs on vector tiles.
func TestNarrowFoldsStayPlain(t *testing.T) {
	r := rand.New(rand.NewPCG(37, 38))
	for _, f := range []Fold{{Acc: lowp.BF16}, {Acc: lowp.BF16, FMA: true}} {
		f.Program = reduce.MustOrder("blocked(4)").Program(19)
		checkVector(t, r, fmt.Sprintf("acc %v fma %v", f.Acc, f.FMA), 13, 33, f, layouts[0].make, layouts[1].make)
	}
}

// What lies past the ends of operands is never read into a result, and bounds are checked before a tile runs.
func TestVectorTilesCheckTheirBounds(t *testing.T) {
	needVectors(t)
	const m, n, k = 12, 32, 8
	for _, short := range []int{0, 1, 2} {
		sizes := []int{m * n, m * k, k * n}
		sizes[short]--
		c, a, b := make([]float32, sizes[0]), make([]float32, sizes[1]), make([]float32, sizes[2])
		require.Panics(t, func() { MatMul(c, n, RowMajor(a, k), RowMajor(b, n), m, n, k, inOrder(k)) })
		require.Panics(t, func() { MatMul(c, n, RowMajor(a, m).T(), RowMajor(b, k).T(), m, n, k, inOrder(k)) })
	}
}

func TestVectorTilesAllocNothing(t *testing.T) {
	needVectors(t)
	r := rand.New(rand.NewPCG(39, 40))
	const m, n, k = 13, 37, 40
	a, b, c := check.Random(r, m*k), check.Random(r, k*n), make([]float32, m*n)
	for _, order := range check.Orders {
		f := foldOf(order, k)
		for _, f := range fusedToo(f) {
			require.Zero(t, testing.AllocsPerRun(100, func() { MatMul(c, n, RowMajor(a, k), RowMajor(b, k).T(), m, n, k, f) }), order)
		}
	}
}

// Weighted rows by vector against the plain loop, at widths about those of registers.
func TestVectorRowsAreThePlainLoop(t *testing.T) {
	needVectors(t)
	r := rand.New(rand.NewPCG(41, 42))
	for width := range 75 {
		for _, n := range []int{0, 1, 2, 5, 9} {
			for sw := range 3 {
				at := r.IntN(4)
				ld := width + r.IntN(3)
				w, x := edgy32(r, n*sw+1+at)[at:], edgy32(r, n*ld+1+at)[at:]
				for _, fma := range []bool{false, true} {
					got := edgy32(r, width+9+at)[at:]
					want := append([]float32(nil), got...)
					addRows(got[:width], w, sw, x, ld, n, fma)
					plainly(func() { addRows(want[:width], w, sw, x, ld, n, fma) })
					check.SameBits(t, want, got, "%d rows of %d, fused %v", n, width, fma)
				}
			}
		}
	}
}
