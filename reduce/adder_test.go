package reduce

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
)

// wideValues are values of every exponent and sign, some of them special.
func wideValues(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	few := r.IntN(2) == 0
	for i := range x {
		x[i] = math.Float32frombits(r.Uint32())
		if few { // exponents near one another, as in training
			x[i] = float32(r.NormFloat64())
		}
		if i > 0 && r.IntN(4) == 0 {
			x[i] = -x[r.IntN(i)]
		}
		switch {
		case x[i] != x[i] || math.IsInf(float64(x[i]), 0), r.IntN(16) == 0:
			x[i] = []float32{0, float32(math.Copysign(0, -1)), 1e-45, math.MaxFloat32}[r.IntN(4)]
		}
	}
	return x
}

// bigSum is the exact sum rounded to fp32, by math/big.
func bigSum(x []float32) float32 {
	sum := new(big.Float).SetPrec(400)
	for _, v := range x {
		sum.Add(sum, big.NewFloat(float64(v)))
	}
	f, _ := sum.Float32()
	return f
}

func TestExactIsTheRoundedSum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		x := wideValues(r, 1+r.IntN(40))
		want := bigSum(x)
		got := AddBy(Exact, x, lowp.FP32)
		require.Equal(t, want, got, x)
		for _, acc := range []lowp.Format{lowp.BF16, lowp.FP16} { // rounded once, by way of a float64 that is not rounded to nearest
			narrow := make([]float32, len(x))
			sum := new(big.Float).SetPrec(400)
			for i, v := range x {
				narrow[i] = acc.Round(v)
				if math.IsInf(float64(narrow[i]), 0) {
					narrow[i] = 1
				}
				sum.Add(sum, big.NewFloat(float64(narrow[i])))
			}
			toOdd, accuracy := sum.SetMode(big.ToZero).Float64()
			if accuracy != big.Exact {
				toOdd = math.Float64frombits(math.Float64bits(toOdd) | 1)
			}
			require.Equal(t, roundOnce(toOdd, acc), AddBy(Exact, narrow, acc), "%v %v", acc, narrow)
		}
		wide := make([]float64, len(x))
		for i, v := range x {
			wide[i] = float64(v) * (1 + r.Float64()/3)
		}
		sum := new(big.Float).SetPrec(2400)
		for _, v := range wide {
			sum.Add(sum, new(big.Float).SetPrec(2400).SetFloat64(v))
		}
		f, _ := sum.Float64()
		require.Equal(t, f, AddBy(Exact, wide, lowp.FP32))
	}
}

// The same bits for any order of the values, cut into any chunks, held by any number of ranks that merge in any order.
func TestOrderFreeSums(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	differ := false
	for range 2000 {
		x := wideValues(r, 1+r.IntN(60))
		exact, binned, plain := AddBy(Exact, x, lowp.FP32), AddBy(Binned, x, lowp.FP32), Seq.Tree(len(x)).Sum(x, lowp.FP32)
		r.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
		differ = differ || math.Float32bits(plain) != math.Float32bits(Seq.Tree(len(x)).Sum(x, lowp.FP32))
		ranks := 1 + r.IntN(5)
		accumulators, bins := make([]Accumulator, ranks), make([]Bins, ranks)
		for rest := x; len(rest) > 0; {
			n, rank := 1+r.IntN(len(rest)), r.IntN(ranks)
			accumulators[rank].Add(rest[:n])
			bins[rank].Add(rest[:n])
			rest = rest[n:]
		}
		order := r.Perm(ranks)
		for _, i := range order[1:] {
			accumulators[order[0]].Merge(&accumulators[i])
			bins[order[0]].Merge(&bins[i])
		}
		require.Equal(t, math.Float32bits(exact), math.Float32bits(accumulators[order[0]].Sum(lowp.FP32)), x)
		require.Equal(t, math.Float32bits(binned), math.Float32bits(bins[order[0]].Sum(lowp.FP32)), x)
	}
	require.True(t, differ, "negative control: a sum in order depends on the order")
}

// An accumulator's bins are emptied before they are full, and what they count does not spill.
func TestLongOrderFreeSums(t *testing.T) {
	x := make([]float32, 3*binValues+7)
	for i := range x {
		x[i] = math.MaxFloat32
		if i%2 == 1 {
			x[i] = -math.Float32frombits(math.Float32bits(math.MaxFloat32) - 1)
		}
	}
	ulp := float64(math.Ldexp(1, 127-23))
	require.Equal(t, float32(float64(math.MaxFloat32)+float64(len(x)/2)*ulp), AddBy(Exact, x, lowp.FP32))
}

// Vectors have the bits of the plain loops, at any length and alignment.
func TestVectorsOfSums(t *testing.T) {
	if !vectorised {
		t.Skip("no vector registers")
	}
	r := rand.New(rand.NewPCG(9, 10))
	for range 2000 {
		x := wideValues(r, 1+r.IntN(100))
		x = x[r.IntN(min(len(x), 4)):]
		largest, least := span(x)
		a, b := spanPlain(x)
		require.Equal(t, [2]uint32{a, b}, [2]uint32{largest, least}, x)
		near := make([]float32, len(x))
		for i := range near {
			near[i] = float32(r.NormFloat64())
		}
		high, low := split(near, 0x1.8p52*0x1p-30)
		wantHigh, wantLow := splitPlain(near, 0x1.8p52*0x1p-30)
		require.Equal(t, [2]float64{wantHigh, wantLow}, [2]float64{high, low})
		lanes, plain := [Lanes]float32{}, [Lanes]float32{}
		AddLanes(&lanes, near)
		lanesPlain(&plain, near)
		require.Equal(t, plain, lanes)
	}
}

func TestBinnedKeepsTheLeadingBits(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		x := make([]float32, 1+r.IntN(100))
		scale := 0.0
		for i := range x {
			x[i] = float32(r.NormFloat64() * math.Exp2(float64(r.IntN(30))))
			scale = max(scale, math.Abs(float64(x[i])))
		}
		exact, _ := new(big.Float).SetFloat64(0), 0
		for _, v := range x {
			exact.Add(exact, big.NewFloat(float64(v)))
		}
		want, _ := exact.Float64()
		got := float64(AddBy(Binned, x, lowp.FP32))
		require.LessOrEqual(t, math.Abs(got-want), float64(len(x))*scale*0x1p-26+math.Abs(want)*0x1p-24)
	}
}

func TestAddersOfSpecialValues(t *testing.T) {
	zero, minus, inf := float32(0), float32(math.Copysign(0, -1)), float32(math.Inf(1))
	for _, c := range []struct {
		x    []float32
		want float32
	}{
		{[]float32{minus, minus}, minus}, {[]float32{minus, zero}, zero}, {[]float32{1, -1}, zero}, {[]float32{inf, -1e38}, inf}, {[]float32{-inf, 3}, -inf},
		{[]float32{math.MaxFloat32, math.MaxFloat32}, inf}, {nil, minus},
	} {
		for _, by := range []Adder{Exact, Binned, Neumaier} {
			require.Equal(t, math.Float32bits(c.want), math.Float32bits(AddBy(by, c.x, lowp.FP32)), "%s %v", by, c.x)
		}
	}
	for _, by := range []Adder{Exact, Binned, Kahan, Neumaier} {
		require.True(t, math.IsNaN(float64(AddBy(by, []float32{inf, -inf, 1}, lowp.FP32))), by)
		require.True(t, math.IsNaN(float64(AddBy(by, []float32{1, float32(math.NaN())}, lowp.FP32))), by)
		require.Equal(t, math.Float32bits(minus), math.Float32bits(AddBy(by, []float32{minus}, lowp.FP32)), by)
	}
}

// What compensation is for: a large value hides small ones, and comes off again.
func TestCompensatedSums(t *testing.T) {
	x := []float32{1, 1e8, 1, -1e8}
	require.Equal(t, float32(2), AddBy(Neumaier, x, lowp.FP32))
	require.Equal(t, float32(0), AddBy(Kahan, x, lowp.FP32), "Kahan loses what is smaller than the next value's error")
	tenth := make([]float32, 1000)
	for i := range tenth {
		tenth[i] = 0.1
	}
	require.Equal(t, float32(100), AddBy(Kahan, tenth, lowp.FP32))
	require.NotEqual(t, float32(100), Seq.Tree(1000).Sum(tenth, lowp.FP32))
}

// Formats by level: one rounding of a part, one of each message.
func TestFormatsByLevel(t *testing.T) {
	x := []float32{1, 0x1p-9, 0x1p-9, 0x1p-9}
	for _, c := range []struct {
		order, formats string
		want           float32
	}{
		{"seq", "fp32", 1 + 3*0x1p-9}, {"seq", "bf16", 1},
		{"splitk(2)", "fp32~bf16", 1 + 0x1p-8}, // 1 + 2⁻⁹ is stored as 1; 2⁻⁸ is kept
		{"splitk(2,seq,pairwise)", "fp32~bf16", 1 + 0x1p-8},
		{"ring(3)", "fp32@bf16", 1 + 0x1p-9}, // the last addition is not sent
		{"symmetric(0)", "fp32@bf16", 1 + 3*0x1p-9},
		{"pairwise", "fp32@bf16", 1 + 3*0x1p-9}, // the right sum is sent, and is a value of bf16
		{"exact", "fp32@bf16", 1 + 3*0x1p-9},
		{"splitk(2)", "fp32~bf16@bf16", 1 + 0x1p-8},
	} {
		plan := MustPlan("ranks:" + c.order + "/" + c.formats)
		r := plan.Reduction("ranks")
		require.Equal(t, c.formats, r.Formats.String())
		require.Equal(t, c.want, r.Order.Tree(4).SumIn(x, r.Formats), "%s/%s", c.order, c.formats)
	}
	for bad, want := range map[string]string{"k:seq/fp32@bf16": "only a sum over ranks", "ranks:seq/fp32~int8": "stored format", "ranks:seq/fp32@": "sent format", "ranks:seq/fp32~bf16~bf16": "stored format"} {
		_, err := ParsePlan(bad)
		require.ErrorContains(t, err, want, bad)
	}
}

var inOrder float32

// BenchmarkOrderFree is what a value of a vector in cache costs beside a plain loop in order, whose every addition waits for the one before. All are
// timed in turn, and the shortest of many counts, so that a busy machine changes no ratio. Eight lanes of one vector wait for themselves as
// well: a step of eight takes as long as one of the loop, so they cannot be below 1/8. What kernels add is batches: see
// kernel.BenchmarkLanesOfABatch.
func BenchmarkOrderFree(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 8))
	x := make([]float32, 4096)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	ways := []struct {
		name string
		add  func()
	}{
		{"in order", func() {
			s := float32(math.Copysign(0, -1))
			for _, v := range x {
				s += v
			}
			inOrder = s
		}},
		{"lanes(8)", func() {
			var sums [Lanes]float32
			AddLanes(&sums, x)
			inOrder = sums[0]
		}},
		{"binned", func() { AddBy(Binned, x, lowp.FP32) }},
		{"exact", func() { AddBy(Exact, x, lowp.FP32) }},
	}
	shortest := make([]time.Duration, len(ways))
	for range b.N {
		for i, w := range ways {
			begun := time.Now()
			w.add()
			if took := time.Since(begun); shortest[i] == 0 || took < shortest[i] {
				shortest[i] = took
			}
		}
	}
	b.ReportMetric(float64(shortest[0].Nanoseconds())/float64(len(x)), "ns/value_in_order")
	for i, w := range ways[1:] {
		b.ReportMetric(float64(shortest[i+1])/float64(shortest[0]), w.name)
	}
	b.ReportMetric(0, "ns/op")
}
