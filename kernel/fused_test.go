package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
	"firstbit/reduce"
)

// everyMMA is every fused sum of every architecture.
func everyMMA() (all []*lowp.MMA) {
	formats := []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP16, lowp.E4M3, lowp.E5M2, lowp.E2M1}
	for _, arch := range lowp.MMAArchs {
		for _, a := range formats {
			for _, b := range formats {
				for _, scale := range []lowp.Format{lowp.FP32, lowp.E8M0, lowp.E4M3} {
					for _, out := range []lowp.Format{lowp.FP32, lowp.FP16} {
						if m, err := lowp.MMAOf(arch, lowp.Operands{A: a, B: b, Scale: scale}, out); err == nil {
							all = append(all, m)
						}
					}
				}
			}
		}
	}
	return all
}

// operand is random elements of a format: near one another, far apart, zeros, subnormal numbers, or all of them.
func operand(r *rand.Rand, f lowp.Format, n int) []float32 {
	x, spread := make([]float32, n), []int{0, 3, 12, 40, 140}[r.IntN(5)]
	for i := range x {
		v := r.NormFloat64()
		if spread > 0 {
			v = math.Ldexp(v, r.IntN(2*spread)-spread)
		}
		if r.IntN(8) == 0 {
			v = math.Copysign(0, v)
		}
		x[i] = f.Round(float32(v))
		if math.IsInf(float64(x[i]), 0) {
			x[i] = f.Round(1)
		}
	}
	return x
}

func scalesOf(r *rand.Rand, m *lowp.MMA, n, k int) Scales {
	if m.Block == 0 {
		return Scales{}
	}
	blocks, rows := (k+m.Block-1)/m.Block, []int{1, 16}[r.IntN(2)]
	x := make([]float32, (n+rows-1)/rows*blocks)
	for i := range x {
		x[i] = m.Scale.Round(float32(math.Ldexp(1+r.Float64(), r.IntN(9)-5)))
	}
	return Scales{RowMajor(x, blocks), rows}
}

func sameElements(t *testing.T, want, got []float32, what string) {
	for i := range want {
		require.Equal(t, math.Float32bits(want[i]), math.Float32bits(got[i]), "%d: %s", i, what)
	}
}

// fusedCase runs a product both ways.
func fusedCase(t *testing.T, r *rand.Rand, mma *lowp.MMA, order reduce.Order, spoil bool) {
	m, n, k := 1+r.IntN(4), 1+r.IntN(18), r.IntN(150)
	x, y := operand(r, mma.A, m*k), operand(r, mma.B, n*k)
	if spoil && k > 0 && (mma.A == lowp.FP32 || mma.A == lowp.FP16) {
		x[r.IntN(m*k)] = float32(math.Inf(1))
		y[r.IntN(n*k)] = float32(math.NaN())
	}
	a, b := RowMajor(x, k), RowMajor(y, k).T()
	if r.IntN(2) == 0 { // lying the other way
		a = Mat[float32]{x, 1, m}
	}
	sa, sb := scalesOf(r, mma, m, k), scalesOf(r, mma, n, k)
	f := Fold{Program: order.Program(k), Acc: mma.Out, MMA: mma}
	want, got := make([]float32, m*n), make([]float32, m*n)
	FusedNaive(want, n, a, b, sa, sb, m, n, k, f)
	if mma.Block > 0 {
		MatMulScaled(got, n, a, b, sa, sb, m, n, k, f)
	} else {
		MatMul(got, n, a, b, m, n, k, f)
	}
	sameElements(t, want, got, fmt.Sprint(*mma, order, m, n, k))
}

func TestFusedProductsAreTheirDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for _, mma := range everyMMA() {
		for round := range 12 {
			order := reduce.Seq
			if mma.Block == 0 {
				order = reduce.MustOrder([]string{"seq", "reverse", "blocked(24)", "perm(5)", "splitk(3)", "lanes(4)"}[round%6])
			} else if round%2 == 1 {
				order = reduce.MustOrder([]string{"blocked(32)", "blocked(32,reverse)", "blocked(64,seq)"}[round/2%3])
			}
			fusedCase(t, r, mma, order, round%4 == 3)
		}
	}
}

// Of forty ones with a large number and its negative among them, what stands in a fused sum with either is cut off, and what lies between is too.
func TestFusedChainsCut(t *testing.T) {
	x, ones := make([]float32, 40), make([]float32, 40)
	for i := range x {
		x[i], ones[i] = 1, 1
	}
	x[0], x[20] = 0x1p30, -0x1p30 // the second lies in the second fused sum of sixteen
	for arch, want := range map[string]float32{"ampere": 16, "hopper": 8} {
		mma, err := lowp.MMAOf(arch, lowp.Operands{A: lowp.BF16, B: lowp.BF16}, lowp.FP32)
		require.NoError(t, err)
		var c [1]float32
		MatMul(c[:], 1, RowMajor(x, 40), RowMajor(ones, 1), 1, 1, 40, Fold{Program: reduce.Seq.Program(40), MMA: mma})
		require.Equal(t, want, c[0], arch)
	}
}

// Every tensor core's products of more than eight bits reveal how many they add, how many bits they keep and how they cut; the
// range of those of eight is too small to ask.
func TestTensorCoresAreRevealed(t *testing.T) {
	const n = 37
	for _, mma := range lowp.MMAs() {
		if mma.Input != "fp16" && mma.Input != "bf16" && mma.Input != "tf32" {
			continue
		}
		ones, scale := make([]float32, n), float32(1)
		for i := range ones {
			ones[i] = 1
		}
		f := Fold{Program: reduce.Seq.Program(n), MMA: mma}
		sum := func(x []float32) float32 {
			var c [1]float32
			a := make([]float32, n)
			for i, v := range x {
				a[i] = mma.A.Round(scale * v)
			}
			MatMul(c[:], 1, RowMajor(a, n), RowMajor(ones, 1), 1, 1, n, f)
			return c[0] / scale
		}
		r, err := reduce.Reveal(n, sum, map[bool]lowp.Format{true: lowp.FP16}[mma.Input == "fp16"])
		require.NoError(t, err)
		require.True(t, f.FusedTree(mma.Terms).Equal(r.Tree), "%s", r.Tree)
		if mma.Input == "fp16" {
			scale = 1 << 10 // so that all that is asked lies in its range
		}
		a, ok := reduce.ProbeFused(r.Tree, n, sum)
		require.True(t, ok)
		require.Contains(t, a.Like, mma.Arch+" "+mma.Input)
		require.Equal(t, [3]int{mma.Terms, mma.Fraction, mma.Kept}, [3]int{a.Addends, a.Bits, a.Kept})
		require.Equal(t, "toward zero toward zero", a.Aligned+" "+a.Result)
	}
}
