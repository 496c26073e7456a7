// Package check has what tests of kernels share: random numbers, the order that a sum adds by, gradients against central differences.
package check

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
	"firstbit/reduce"
)

// Orders are those under test.
var Orders = []string{"seq", "reverse", "pairwise", "blocked(4)", "lanes(8)", "splitk(4)", "splitk(3,reverse)", "perm(7)"}

// Ones are n ones.
func Ones(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1
	}
	return x
}

// Order demands that a kernel's sum, asked as a black box, is the tree.
func Order(t *testing.T, what string, n int, want reduce.Tree, acc lowp.Format, sum reduce.Summer) {
	t.Helper()
	got, err := reduce.Reveal(n, sum, acc)
	require.NoError(t, err, what)
	require.True(t, got.Verified, "%s: replay", what)
	require.True(t, got.Tree.Equal(want), "%s: revealed %s, the plan says %s", what, got.Tree, want)
}

// Random are n normal numbers.
func Random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// SameBits demands elements of the same bits.
func SameBits(t *testing.T, want, got []float32, format string, a ...any) {
	t.Helper()
	for i := range want {
		if lowp.FP32.Encode(want[i]) != lowp.FP32.Encode(got[i]) {
			t.Fatalf("%s: element %d: %08x, not %08x: %d ulps", fmt.Sprintf(format, a...), i,
				lowp.FP32.Encode(got[i]), lowp.FP32.Encode(want[i]), lowp.FP32.Ulps(want[i], got[i]))
		}
	}
}

// Normal are n normal numbers.
func Normal(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

// gradError is the largest error of a gradient against central differences of a random
// projection Σ p·f(x), relative to the gradient's largest element.
func gradError(r *rand.Rand, x []float64, f func() []float64, backward func(dy []float64) []float64) float64 {
	p := Normal(r, len(f()))
	project := func() float64 {
		s := 0.0
		for i, v := range f() {
			s += float64(v * p[i])
		}
		return s
	}
	f() // the backward reads what the forward saved
	dx := backward(p)
	scale, worst := 1e-12, 0.0
	for _, v := range dx {
		scale = max(scale, math.Abs(v))
	}
	const h = 1e-5
	for i := range x {
		keep := x[i]
		x[i] = keep + h
		hi := project()
		x[i] = keep - h
		lo := project()
		x[i] = keep
		worst = max(worst, math.Abs((hi-lo)/(2*h)-dx[i])/scale)
	}
	return worst
}

const gradTolerance = 1e-7

// Gradient demands the gradient, and that one with a single element off by a thousandth of the largest is caught.
func Gradient(t *testing.T, what string, x []float64, f func() []float64, backward func(dy []float64) []float64) {
	t.Helper()
	require.Less(t, gradError(rand.New(rand.NewPCG(9, 9)), x, f, backward), gradTolerance, what)
	wrong := func(dy []float64) []float64 {
		dx := append([]float64(nil), backward(dy)...)
		at := 0
		for i := range dx {
			if math.Abs(dx[i]) > math.Abs(dx[at]) {
				at = i
			}
		}
		dx[at] *= 1.001
		return dx
	}
	require.Greater(t, gradError(rand.New(rand.NewPCG(9, 9)), x, f, wrong), gradTolerance, "%s: a wrong gradient must fail", what)
}

// AnotherLength demands that sums of four values panic, saying so, when they are given a fold of three.
func AnotherLength[F any](t *testing.T, four, three F, sums map[string]func(F)) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		sum := sums[name]
		require.PanicsWithValue(t, LengthMessage, func() { sum(three) }, name)
		require.NotPanics(t, func() { sum(four) }, name)
	}
}

// LengthMessage is what a sum says that is given a fold of another length.
const LengthMessage = "kernel: a fold of another length than what it adds"

// Sums demands of kernels, each arranged to add exactly the values it is given, that they add by every order at several lengths.
func Sums(t *testing.T, kernels func(order string, n int) map[string]reduce.Summer) {
	t.Helper()
	for _, order := range Orders {
		for _, n := range []int{1, 2, 7, 19} {
			all := kernels(order, n)
			for _, name := range slices.Sorted(maps.Keys(all)) {
				sum := all[name]
				Order(t, fmt.Sprintf("%s by %s over %d", name, order, n), n, reduce.MustOrder(order).Tree(n), lowp.FP32, sum)
			}
		}
	}
}

// Grafted is the sum of the values of the tokens that are present by the tree of all n tokens, from which the others are taken out.
func Grafted(order string, n int, present []int32, value func(i int) float32, acc lowp.Format) float32 {
	inner, x := make([]reduce.Tree, n), make([]float32, n)
	for i := range inner {
		inner[i] = reduce.Empty
	}
	for i, token := range present {
		inner[token] = reduce.Tree{Leaf: int(token)}
		x[token] = value(i)
	}
	return reduce.Graft(reduce.MustOrder(order).Tree(n), inner).Sum(x, acc)
}

// Of sums over tokens that are asked of a run of sequences.
const (
	ShardT = 8 // tokens of a sequence
	ShardB = 8 // sequences
)

// Shardable is a sum over tokens, asked of the sequences from lo to hi.
type Shardable func(lo, hi int) []float32

// Shards demands that sums over tokens are the same however the sequences are dealt to shards, and that the controls are not.
func Shards(t *testing.T, sums func(r *rand.Rand) (canonical, controls map[string]Shardable)) {
	t.Helper()
	differs := map[string]bool{}
	for seed := range uint64(30) {
		canonical, controls := sums(rand.New(rand.NewPCG(43, seed)))
		for _, shards := range []int{2, 4, 8} {
			for _, name := range slices.Sorted(maps.Keys(canonical)) {
				sum := canonical[name]
				SameBits(t, joined(sum, 1), joined(sum, shards), "%s over %d shards", name, shards)
			}
			for _, name := range slices.Sorted(maps.Keys(controls)) {
				sum := controls[name]
				for i, v := range joined(sum, 1) {
					differs[name] = differs[name] || v != joined(sum, shards)[i]
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(differs)) {
		require.True(t, differs[name], "negative control: %s", name)
	}
}

// joined is the sum over all sequences made of so many shards, each by itself, joined pairwise as a collective joins ranks.
func joined(sum Shardable, shards int) []float32 {
	per := ShardB / shards
	in := make([][]float32, shards)
	for i := range in {
		in[i] = sum(i*per, (i+1)*per)
	}
	y, leaves := make([]float32, len(in[0])), make([]float32, shards)
	for j := range y {
		for i := range in {
			leaves[i] = in[i][j]
		}
		y[j] = reduce.Pairwise.Tree(shards).Sum(leaves, lowp.FP32)
	}
	return y
}

// Wide are numbers whose exponential, or that of their differences, is 0, subnormal, plain, tiny beside 1 or ∞.
func Wide(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64()) * []float32{1e-10, 1, 10, 60, 900}[r.IntN(5)]
		if r.IntN(20) == 0 {
			x[i] = float32(math.Copysign(0, -1))
		}
	}
	return x
}
