package moe

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel"
	"firstbit/kernel/check"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/reduce"
)

func TestFoldsOfAnotherLengthPanic(t *testing.T) {
	x, y, one, ints := check.Ones(12), make([]float32, 12), make([]float32, 12), make([]int32, 13)
	four, three := inOrder(4), inOrder(3) // a short fold runs into no end of a slice: only the check stops it
	check.AnotherLength(t, four, three, map[string]func(kernel.Fold){
		"softmax":       func(f kernel.Fold) { softmax(y, x, 4, f) },
		"softmax.bwd":   func(f kernel.Fold) { softmaxBackward(y, x, x, 4, f) },
		"normalize":     func(f kernel.Fold) { normalize(y, one[:3], x, 4, 1, f) },
		"normalize.bwd": func(f kernel.Fold) { normalizeBackward(y, x, x, x[:3], 4, 1, f) },
		"share":         func(f kernel.Fold) { probShare(y, x, 4, f) },
		"share.bwd":     func(f kernel.Fold) { probShareBackward(y, x, x, 4, f) },
		"combine":       func(f kernel.Fold) { combineSlots(y[:3], x, ints[:12], 4, 1, f) },
		"aux loss":      func(f kernel.Fold) { auxLoss(x, ints[:4], 4, 8, 1, inOrder, f, three, nil) },
		"z loss":        func(f kernel.Fold) { zLoss(x, 4, 1, f, three) },
		"z loss.bwd":    func(f kernel.Fold) { zLossBackward(y, x, 4, 1, 1, f) },
	})
	short := func(n int) kernel.Fold { return inOrder(n - 1) }
	require.PanicsWithValue(t, check.LengthMessage, func() { auxLoss(x, ints[:4], 4, 8, 1, short, four, three, nil) })
	require.PanicsWithValue(t, check.LengthMessage, func() { auxLoss(x, ints[:4], 4, 8, 1, inOrder, four, inOrder(2), nil) })
	require.PanicsWithValue(t, check.LengthMessage, func() { zLoss(x, 4, 1, four, inOrder(2)) })
}

func TestSumsAddByTheirPlan(t *testing.T) {
	check.Sums(t, func(order string, n int) map[string]reduce.Summer {
		f := foldOf(order, n)
		same := func(int) kernel.Fold { return f }
		ascending := make([]int32, n)
		for i := range ascending {
			ascending[i] = int32(i)
		}
		return map[string]reduce.Summer{
			"grouped weight": func(x []float32) float32 {
				dw := make([]float32, 1)
				groupedMatMulWeight(dw, x, check.Ones(n), []int32{0, int32(n)}, 1, 1, same)
				return dw[0]
			},
			"grouped weight of all": func(x []float32) float32 {
				dw := make([]float32, 1)
				groupedMatMulWeightAll(dw, x, check.Ones(n), []int32{0, int32(n)}, ascending, 1, 1, f)
				return dw[0]
			},
			"combine": func(x []float32) float32 {
				y := make([]float32, 1)
				combineSlots(y, x, ascending, n, 1, f)
				return y[0]
			},
			"aux loss over CTAs": func(x []float32) float32 { return auxLoss(x, []int32{1}, 1, n, 1, inOrder, inOrder(1), f, nil) },
			"aux loss within a CTA": func(x []float32) float32 {
				return auxLoss(x, []int32{1}, 1, 1, 1, same, inOrder(1), inOrder(1), nil)
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
		softmax(y, x, n, f)
		e := exps(x)
		sum := tree.Sum(e, lowp.FP32)
		for i := range y {
			check.SameBits(t, []float32{e[i] / sum}, y[i:i+1], "softmax by %s", order)
		}
		share, norm, denominator := make([]float32, n), make([]float32, n), make([]float32, 1)
		total := tree.Sum(e, lowp.FP32) + 1e-20
		probShare(share, e, n, f)
		normalize(norm, denominator, e, n, 1, f)
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
		sigmoid(got, x)
		check.SameBits(t, want, got, "sigmoid of %d", width)
		f := inOrder(width)
		softmax(got, x, width, f)
		check.SameBits(t, softmaxByElement(x, width, f), got, "softmax of %d", width)
	}
}

func softmaxByElement(x []float32, width int, f kernel.Fold) []float32 {
	want := make([]float32, len(x))
	for i := 0; i < len(x); i += width {
		row, m := want[i:i+width], nn.Largest(x[i:i+width])
		for j := range row {
			row[j] = libm.ExpOf(x[i+j] - m)
		}
		sum := kernel.Sum(f, row, 1)
		for j := range row {
			row[j] /= sum
		}
	}
	return want
}

// exps are the exponentials softmax adds, by softmax of one element beside the row's largest.
func exps(x []float32) []float32 {
	e, m := make([]float32, len(x)), slices.Max(x)
	for i, v := range x {
		// logSumExp's buffer holds exp(x − m).
		pair := make([]float32, 2)
		nn.LogSumExp(pair, []float32{v, m}, inOrder(2))
		e[i] = pair[0]
	}
	return e
}
