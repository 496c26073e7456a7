package optim

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// bigSquares is the sum by big integers, rounded by them.
func bigSquares(x []float32) float64 {
	sum := new(big.Float).SetPrec(800)
	for _, v := range x {
		b := new(big.Float).SetPrec(800).SetFloat64(float64(v))
		sum.Add(sum, new(big.Float).SetPrec(800).Mul(b, b))
	}
	f, _ := sum.Float64()
	return f
}

// squaresOf adds in as many parts, whose digits are added as whole numbers.
func squaresOf(parts int, x []float32) float64 {
	sum := make([]int32, squareDigits)
	digits := make([]int32, squareDigits)
	for i := range parts {
		var s squares
		s.Add(x[i*len(x)/parts : (i+1)*len(x)/parts])
		s.Digits(digits)
		for j, d := range digits {
			sum[j] += d
		}
	}
	return sumOfSquares(sum)
}

func anyFloats(r *rand.Rand, n int, finite func(u uint32) uint32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = math.Float32frombits(finite(r.Uint32()))
	}
	return x
}

func TestSquaresAreExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	kinds := map[string]func(u uint32) uint32{
		"any": func(u uint32) uint32 {
			if u>>23&0xff == 0xff {
				return u &^ (1 << 23)
			}
			return u
		},
		"near one":  func(u uint32) uint32 { return u&(1<<23-1) | (120+u>>29)<<23 },
		"subnormal": func(u uint32) uint32 { return u & (1<<23 - 1) },
		"largest":   func(u uint32) uint32 { return u&0xff | 0x7f7fff00 },
		"few bits":  func(u uint32) uint32 { return u & 0x7f800000 &^ (1 << 30) },
		"zeros":     func(u uint32) uint32 { return u & (1 << 31) },
	}
	naive := 0
	for name, kind := range kinds {
		for range 300 {
			x := anyFloats(r, 1+r.IntN(60), kind)
			want := bigSquares(x)
			for _, parts := range []int{1, 2, 3, 7} {
				require.Equal(t, want, squaresOf(parts, x), "%s: %v", name, x)
			}
			r.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
			require.Equal(t, want, squaresOf(1, x), name)
			sum := 0.0
			for _, v := range x {
				sum += float64(float64(v) * float64(v))
			}
			if sum != want {
				naive++
			}
		}
	}
	require.Greater(t, naive, 50, "the comparison must be able to fail: a sum in float64 is another")
}

// Sums that lie between two float64 go to the nearer, from the middle to the even one; a bit however far below decides.
func TestSquaresAreRoundedOnce(t *testing.T) {
	one := func(n int) []float32 { return slices.Repeat([]float32{1}, n) }
	half := float32(0x1p-27) // its square is 2⁻⁵⁴; twice: half of the last bit of 1
	for _, x := range [][]float32{
		append(one(1), half, half), append(one(1), half, half, 0x1p-149), append(one(1), half), append(one(1), half, half, half),
		append(one(3), half, half, half, half), append(one(2), 0x1p-26), append(one(2), 0x1p-26, 0x1p-26, 0x1p-100),
		{0x1.fffffep127, 0x1p-149}, slices.Repeat([]float32{0x1.fffffep127}, 1000),
	} {
		require.Equal(t, bigSquares(x), squaresOf(1, x), "%v", x[:min(len(x), 5)])
	}
	require.Equal(t, 1.0, squaresOf(1, append(one(1), half, half)))
	require.Equal(t, 1+0x1p-52, squaresOf(1, append(one(1), half, half, 0x1p-149)))
}

// More squares than a bin holds, and more sums than a world has ranks.
func TestManySquares(t *testing.T) {
	var s squares
	x := slices.Repeat([]float32{0x1.fffffep10}, mostInBin+mostInBin/2+3)
	s.Add(x[:5])
	s.Add(x[5:])
	digits := make([]int32, squareDigits)
	s.Digits(digits)
	n := new(big.Float).SetInt64(int64(len(x)))
	want, _ := n.Mul(n.SetPrec(200), new(big.Float).SetFloat64(0x1.fffffep10*0x1.fffffep10)).Float64()
	require.Equal(t, want, sumOfSquares(digits))
	sum := make([]int32, squareDigits)
	for i := range sum[:squareInf] {
		sum[i] = digitMask << 14 // of 16384 ranks, each the largest digit everywhere
	}
	all := new(big.Float).SetPrec(800)
	for i := range squareInf {
		all.Add(all, new(big.Float).SetPrec(800).SetMantExp(big.NewFloat(digitMask<<14), digitBits*i+squareScale))
	}
	// What leaves the top digit cannot be a sum of squares; leave it out on both sides.
	sum[squareInf-1] = 0
	all.Sub(all, new(big.Float).SetPrec(800).SetMantExp(big.NewFloat(digitMask<<14), digitBits*(squareInf-1)+squareScale))
	want, _ = all.Float64()
	require.Equal(t, want, sumOfSquares(sum))
}

func TestSquaresOfWhatIsNotFinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, parts := range []int{1, 2, 3} {
		require.Equal(t, math.Inf(1), squaresOf(parts, []float32{1, -inf, 2}))
		require.Equal(t, math.Inf(1), squaresOf(parts, []float32{inf, -inf, inf}))
		require.True(t, math.IsNaN(squaresOf(parts, []float32{nan, 1, 1})))
		require.True(t, math.IsNaN(squaresOf(parts, []float32{1, -inf, nan})))
		require.Equal(t, 0.0, squaresOf(parts, []float32{0, 0, 0}))
	}
	require.Equal(t, 0.0, squaresOf(1, nil))
}
