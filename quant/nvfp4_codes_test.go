package quant

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel"
	"firstbit/kernel/check"
	"firstbit/lowp"
)

func nvOnce(x []float32, words []uint32) (codes, scales []byte, y []float32) {
	codes, scales, y = make([]byte, len(x)/2), make([]byte, len(x)/nvBlock), make([]float32, len(x))
	quantiseNVFP4(codes, scales, x, nvTensorScale(lowp.AbsMax(x)), words)
	dequantiseNVFP4(y, codes, scales, lowp.AbsMax(x))
	return
}

// docs/facts.md, Low precision: the two levels of scales, where a tensor or a block is zero, and where 1/s is past float32.
func TestNVScales(t *testing.T) {
	require.Equal(t, float32(2688), nvTensorScale(1))
	require.Equal(t, float32(1), nvTensorScale(0))
	require.Equal(t, float32(1), nvTensorScale(inf32))
	require.Equal(t, float32(math.MaxFloat32), nvTensorScale(0x1p-149))
	for _, c := range []struct {
		amax, tensor float32
		code         byte
		factor       float32
	}{
		{6, 448, 0x7e, 1}, {6, 1, 0x38, 1}, {0, 448, 0, math.MaxFloat32}, {0x1p-30, 1, 0, math.MaxFloat32}, {12, 448, 0x7e, 1},
	} {
		code, factor := nvBlockScale(c.amax, c.tensor)
		require.Equal(t, c.code, code, "%v %v", c.amax, c.tensor)
		require.Equal(t, c.factor, factor, "%v %v", c.amax, c.tensor)
	}
	codes, scales, y := nvOnce(make([]float32, 32), nil)
	require.Equal(t, make([]byte, 16), codes)
	require.Equal(t, make([]byte, 2), scales)
	require.Equal(t, make([]float32, 32), y)
}

// docs/facts.md, Low precision: S is multiplied with the float32 next to 1/6; a division by 6 has other codes. All pairs of a
// tensor's amax between 1 and 2 and a block's amax, in bf16, as activations are.
func TestNVBlockScaleIsNotADivision(t *testing.T) {
	differ := 0
	for a := uint32(0x3f80); a < 0x4000; a++ {
		tensor := nvTensorScale(math.Float32frombits(a << 16))
		for b := uint32(0x3a00); b <= a; b++ {
			amax := math.Float32frombits(b << 16)
			code, _ := nvBlockScale(amax, tensor)
			if divided := byte(lowp.E4M3.Encode(float32(float32(amax/6) * tensor))); code != divided {
				require.Equal(t, divided+1, code)
				differ++
			}
		}
	}
	require.Equal(t, 187, differ, "of 188480: ties, which the reciprocal leaves upwards")
	code, _ := nvBlockScale(0x1.86p-7, nvTensorScale(1.015625))
	require.EqualValues(t, 0x4b, code)
	require.EqualValues(t, 0x4a, lowp.E4M3.Encode(float32(0x1.86p-7)/6*nvTensorScale(1.015625)))
	x := make([]float32, 32*nvBlock)
	x[0], x[nvBlock] = 1.015625, 0x1.86p-7
	_, scales, _ := nvOnce(x, nil)
	require.EqualValues(t, 0x4b, scales[1])
	quantiseNVFP4Square(make([]byte, len(x)/2), scales, x, 2*nvBlock, nvTensorScale(lowp.AbsMax(x)))
	require.EqualValues(t, 0x4b, scales[1])
}

// docs/facts.md, Low precision: where a block's factor and what undoes its scale are rounded. Each operation is done in float64, which is exact
// enough for one float32 operation, and rounded; formulas that are the same on paper have other bits.
func TestNVFactorsAreRoundedAsSaid(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 9))
	round := func(x float64) float64 { return float64(float32(x)) }
	quotient, divided, regrouped := 0, 0, 0
	for range 10000 {
		amax := round(math.Ldexp(1+r.Float64(), r.IntN(12)-6))
		tensor := round(float64(nvTensorScale(float32(amax * (1 + 3*r.Float64())))))
		code, factor := nvBlockScale(float32(amax), float32(tensor))
		s, inverse := float64(lowp.E4M3.Decode(uint32(code))), round(1/tensor)
		require.Equal(t, round(1/round(s*inverse)), float64(factor), "%v %v", amax, tensor)
		if round(round(1/inverse)/s) != float64(factor) {
			quotient++
		}
		back, largest := float64(nvDecode(code, float32(amax))), round(1.0/(6*448))
		require.Equal(t, round(round(s*amax)*largest), back)
		if round(round(s*amax)/(6*448)) != back {
			divided++
		}
		if round(s*round(amax*largest)) != back {
			regrouped++
		}
	}
	for _, n := range []int{quotient, divided, regrouped} {
		require.Greater(t, n, 500, "negative control")
	}
}

// Squares have the same scale by rows and by columns: the transpose's copy is the transposed copy.
func TestNVSquareIsItsOwnTranspose(t *testing.T) {
	const rows, d = 48, 64
	x := check.Random(rand.New(rand.NewPCG(7, 6)), rows*d)
	xt, yt := make([]float32, rows*d), make([]float32, rows*d)
	transpose(xt, x, d)
	square := func(x []float32, d int) (scales []byte, y []float32) {
		codes, scales, y := make([]byte, len(x)/2), make([]byte, len(x)/nvBlock/nvBlock), make([]float32, len(x))
		quantiseNVFP4Square(codes, scales, x, d, nvTensorScale(lowp.AbsMax(x)))
		dequantiseNVFP4Square(y, codes, scales, d, lowp.AbsMax(x))
		return scales, y
	}
	scales, y := square(x, d)
	tscales, back := square(xt, rows)
	transpose(yt, y, d)
	check.SameBits(t, yt, back, "the copy by columns")
	require.Equal(t, scales[1], tscales[rows/nvBlock])
	_, _, narrow := nvOnce(x, nil)
	_, _, tnarrow := nvOnce(xt, nil)
	transpose(yt, narrow, d)
	require.NotEqual(t, yt[:16], tnarrow[:16], "negative control: blocks of 1 by 16")
}

// One word is consumed for each element, in order: a word moves its own element alone, and up to one step.
func TestNVStochasticTakesAWordAnElement(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	x, words := check.Random(r, 1024), make([]uint32, 1024)
	for i := range words {
		words[i] = r.Uint32()
	}
	codes, scales, _ := nvOnce(x, words)
	nearest, same, _ := nvOnce(x, nil)
	require.Equal(t, same, scales, "scales are to nearest")
	require.False(t, bytes.Equal(nearest, codes))
	moved := 0
	for i := range words {
		was := words[i]
		words[i] = ^was
		other, _, _ := nvOnce(x, words)
		words[i] = was
		for j := range codes {
			if changed := codes[j] ^ other[j]; changed != 0 {
				require.Equal(t, i/2, j)
				require.Zero(t, changed>>(4*(1-i%2))&15, "the other nibble")
				moved++
			}
		}
	}
	require.Greater(t, moved, 300)
	require.Panics(t, func() { quantiseNVFP4(codes, scales, x, 1, words[:1023]) })
	require.Panics(t, func() { quantiseNVFP4(codes, scales, x[:1000], 1, nil) })
}

// Over all words that lie evenly the mean is the number; to nearest it is not.
func TestNVStochasticIsUnbiased(t *testing.T) {
	const n = 4096
	x, words := make([]float32, n*nvBlock), make([]uint32, n*nvBlock)
	for i := range x {
		x[i], words[i] = 0.3, uint32(i/nvBlock)<<20
		if i%nvBlock == 0 {
			x[i] = 6 // block scale 448, factor 1
		}
	}
	mean := func(y []float32) float64 {
		sum := 0.0
		for i := 1; i < len(y); i += nvBlock {
			sum += float64(y[i])
		}
		return sum / n
	}
	_, _, y := nvOnce(x, words)
	require.InDelta(t, 0.3, mean(y), 0.5/n)
	_, _, y = nvOnce(x, nil)
	require.Equal(t, 0.5, mean(y), "negative control")
}

func TestRandomHadamard(t *testing.T) {
	f := foldOf("seq", nvBlock)
	var gram [nvBlock * nvBlock]float32
	h := kernel.RowMajor(hadamard[:], nvBlock)
	kernel.MatMul(gram[:], nvBlock, h, h.T(), nvBlock, nvBlock, nvBlock, f)
	for i := range gram {
		require.Equal(t, i%(nvBlock+1) == 0, gram[i] == 1, "orthogonal")
		require.True(t, gram[i] == 0 || gram[i] == 1)
	}
	for i, s := range []float32{1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1} {
		require.Equal(t, s/4, hadamard[i*nvBlock], "docs/facts.md, Low precision: the fixed signs")
		for j := range nvBlock {
			require.Equal(t, float32(0.25), max(hadamard[i*nvBlock+j], -hadamard[i*nvBlock+j]))
		}
	}
	// On integers everything is exact: the product of two transformed operands is their product.
	r := rand.New(rand.NewPCG(7, 8))
	const m, n, k = 5, 7, 64
	a, b := make([]float32, m*k), make([]float32, n*k)
	for i := range a {
		a[i] = float32(r.IntN(9) - 4)
	}
	for i := range b {
		b[i] = float32(r.IntN(9) - 4)
	}
	ra, rb, want, got := make([]float32, m*k), make([]float32, n*k), make([]float32, m*n), make([]float32, m*n)
	randomHadamard(ra, a, f)
	randomHadamard(rb, b, f)
	g := foldOf("seq", k)
	kernel.MatMul(want, n, kernel.RowMajor(a, k), kernel.RowMajor(b, k).T(), m, n, k, g)
	kernel.MatMul(got, n, kernel.RowMajor(ra, k), kernel.RowMajor(rb, k).T(), m, n, k, g)
	check.SameBits(t, want, got, "the product")
	kernel.MatMul(got, n, kernel.RowMajor(ra, k), kernel.RowMajor(b, k).T(), m, n, k, g)
	require.NotEqual(t, want, got, "negative control: one operand alone")
	// An outlier is spread over its block.
	spike := make([]float32, nvBlock)
	spike[3] = 16
	randomHadamard(spike, append([]float32(nil), spike...), f)
	require.Equal(t, float32(4), lowp.AbsMax(spike))
	x, y, z := check.Random(r, 4*nvBlock), make([]float32, 4*nvBlock), make([]float32, 4*nvBlock)
	randomHadamard(y, x, f)
	randomHadamard(z, x, foldOf("reverse", nvBlock))
	require.NotEqual(t, y, z, "the order of its sums is the fold's")
}
