package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel/check"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/reduce"
)

func TestFoldsOfAnotherLengthPanic(t *testing.T) {
	x, y, one, ints := check.Ones(12), make([]float32, 12), make([]float32, 12), make([]int32, 13)
	four, three := inOrder(4), inOrder(3) // a short fold runs into no end of a slice: only the check stops it
	check.AnotherLength(t, four, three, map[string]func(Fold){
		"softmax":       func(f Fold) { Softmax(y, x, 4, f) },
		"softmax.bwd":   func(f Fold) { SoftmaxBackward(y, x, x, 4, f) },
		"normalize":     func(f Fold) { Normalize(y, one[:3], x, 4, 1, f) },
		"normalize.bwd": func(f Fold) { NormalizeBackward(y, x, x, x[:3], 4, 1, f) },
		"share":         func(f Fold) { ProbShare(y, x, 4, f) },
		"share.bwd":     func(f Fold) { ProbShareBackward(y, x, x, 4, f) },
		"combine":       func(f Fold) { CombineSlots(y[:3], x, ints[:12], 4, 1, f) },
		"aux loss":      func(f Fold) { AuxLoss(x, ints[:4], 4, 8, 1, inOrder, f, three, nil) },
		"z loss":        func(f Fold) { ZLoss(x, 4, 1, f, three) },
		"z loss.bwd":    func(f Fold) { ZLossBackward(y, x, 4, 1, 1, f) },
	})
	short := func(n int) Fold { return inOrder(n - 1) }
	require.PanicsWithValue(t, check.LengthMessage, func() { AuxLoss(x, ints[:4], 4, 8, 1, short, four, three, nil) })
	require.PanicsWithValue(t, check.LengthMessage, func() { AuxLoss(x, ints[:4], 4, 8, 1, inOrder, four, inOrder(2), nil) })
	require.PanicsWithValue(t, check.LengthMessage, func() { ZLoss(x, 4, 1, four, inOrder(2)) })
}

func TestSumsAddByTheirPlan(t *testing.T) {
	check.Sums(t, func(order string, n int) map[string]reduce.Summer {
		f := foldOf(order, n)
		same := func(int) Fold { return f }
		ascending := make([]int32, n)
		for i := range ascending {
			ascending[i] = int32(i)
		}
		return map[string]reduce.Summer{
			"grouped weight": func(x []float32) float32 {
				dw := make([]float32, 1)
				GroupedMatMulWeight(dw, x, check.Ones(n), []int32{0, int32(n)}, 1, 1, same)
				return dw[0]
			},
			"grouped weight of all": func(x []float32) float32 {
				dw := make([]float32, 1)
				GroupedMatMulWeightAll(dw, x, check.Ones(n), []int32{0, int32(n)}, ascending, 1, 1, f)
				return dw[0]
			},
			"combine": func(x []float32) float32 {
				y := make([]float32, 1)
				CombineSlots(y, x, ascending, n, 1, f)
				return y[0]
			},
			"aux loss over CTAs": func(x []float32) float32 { return AuxLoss(x, []int32{1}, 1, n, 1, inOrder, inOrder(1), f, nil) },
			"aux loss within a CTA": func(x []float32) float32 {
				return AuxLoss(x, []int32{1}, 1, 1, 1, same, inOrder(1), inOrder(1), nil)
			},
		}
	})
}

// Kernels whose sums stand between functions that are not linear, against the tree itself.
func TestSharesAddByTheirPlan(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const n = 19
	for _, order := range check.Orders {
		f, tree := foldOf(order, n), reduce.MustOrder(order).Tree(n)
		x, y := check.Random(r, n), make([]float32, n)
		Softmax(y, x, n, f)
		e := exps(x)
		sum := tree.Sum(e, lowp.FP32)
		for i := range y {
			check.SameBits(t, []float32{e[i] / sum}, y[i:i+1], "softmax by %s", order)
		}
		share, norm, denominator := make([]float32, n), make([]float32, n), make([]float32, 1)
		total := tree.Sum(e, lowp.FP32) + 1e-20
		ProbShare(share, e, n, f)
		Normalize(norm, denominator, e, n, 1, f)
		for i := range share {
			check.SameBits(t, []float32{e[i] / total, e[i] / total}, []float32{share[i], norm[i]}, "shares by %s", order)
		}
	}
}

// Whole rows are handed to libm: they are the formulas element by element, bit for bit, at widths about those of vector registers, with
// arguments past every edge of the exponential.
func TestScoresBySliceAreTheirFormulas(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	for width := 1; width < 40; width++ {
		x := check.Wide(r, 3*width)
		got, want := make([]float32, len(x)), make([]float32, len(x))
		for i, v := range x {
			want[i] = libm.Sigmoid(v)
		}
		Sigmoid(got, x)
		check.SameBits(t, want, got, "sigmoid of %d", width)
		f := inOrder(width)
		Softmax(got, x, width, f)
		check.SameBits(t, softmaxByElement(x, width, f), got, "softmax of %d", width)
	}
}

func softmaxByElement(x []float32, width int, f Fold) []float32 {
	want := make([]float32, len(x))
	for i := 0; i < len(x); i += width {
		row, m := want[i:i+width], Largest(x[i:i+width])
		for j := range row {
			row[j] = libm.ExpOf(x[i+j] - m)
		}
		sum := Sum(f, row, 1)
		for j := range row {
			row[j] /= sum
		}
	}
	return want
}

// exps are the exponentials softmax adds, by Softmax of one element beside the row's largest.
func exps(x []float32) []float32 {
	e, m := make([]float32, len(x)), slices.Max(x)
	for i, v := range x {
		// logSumExp's buffer holds exp(x − m).
		pair := make([]float32, 2)
		LogSumExp(pair, []float32{v, m}, inOrder(2))
		e[i] = pair[0]
	}
	return e
}
