package lowp

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// ups counts how often x is rounded away from zero, over words that lie evenly.
func ups(f Format, x float32, encode func(codes []byte, x []float32, words []uint32)) int {
	const n = 1024
	xs, words, codes := make([]float32, n), make([]uint32, n), make([]byte, n*f.Bits()/8)
	for i := range xs {
		xs[i], words[i] = x, uint32(i)<<22
	}
	encode(codes, xs, words)
	count := 0
	for _, v := range f.FromBytes(codes) {
		if math.Abs(float64(v)) > math.Abs(float64(x)) {
			count++
		}
	}
	return count
}

// Of two neighbours the upper is chosen by exactly the part of the words that is the number's place
// between them, in every binade and below the smallest normal.
func TestStochasticRoundingIsByPlace(t *testing.T) {
	for _, f := range []Format{E4M3, E5M2, E2M1} {
		stochastic := func(codes []byte, x []float32, words []uint32) { f.EncodeStochastic(codes, x, 1, words) }
		last := f.Encode(float32(f.Max()))
		toNearest := 0
		for c := range last {
			lo, hi := float64(f.Decode(c)), float64(f.Decode(c+1))
			for _, place := range []int{0, 1, 100, 511, 512, 1023} {
				x := float32(lo + (hi-lo)*float64(place)/1024)
				require.Equal(t, place, ups(f, x, stochastic), "%v: %d/1024 above %v", f, place, lo)
				require.Equal(t, place, ups(f, -x, stochastic))
				if place != ups(f, x, func(codes []byte, x []float32, _ []uint32) { f.EncodeScaled(codes, x, 1) }) {
					toNearest++
				}
			}
		}
		require.Positive(t, toNearest, "negative control: to nearest is not by place")
	}
}

func TestStochasticRoundingAtEnds(t *testing.T) {
	inf := float32(math.Inf(1))
	x := []float32{6, 7, inf, -inf, float32(math.NaN()), 0, float32(math.Copysign(0, -1)), 0x1p-149, 4, math.Nextafter32(4, 5)}
	for _, k := range []struct {
		word uint32
		want []float32
	}{
		{0, []float32{6, 6, 6, -6, 6, 0, 0, 0, 4, 4}},
		// 2⁻¹⁴⁹ of a step is less than a word can say; 2⁻²¹ of a step is not.
		{math.MaxUint32, []float32{6, 6, 6, -6, 6, 0, 0, 0, 4, 6}},
	} {
		codes, words := make([]byte, len(x)/2), make([]uint32, len(x))
		for i := range words {
			words[i] = k.word
		}
		E2M1.EncodeStochastic(codes, x, 1, words)
		require.Equal(t, k.want, E2M1.FromBytes(codes))
		require.Equal(t, byte(0x80|0x08), (codes[3]&0x0f|codes[1]&0x80)&0x88, "signs, that of −0 too")
	}
	require.Panics(t, func() { E2M1.EncodeStochastic(make([]byte, 1), x[:2], 1, make([]uint32, 1)) }, "a word an element")
}
