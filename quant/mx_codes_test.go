package quant

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel/check"
	"firstbit/lowp"
)

// docs/facts.md, Low precision: amax 225 is 2⁰ by TransformerEngine and 2⁻¹ by OCP, 449 is 2¹ and 2⁰; 448, 224, 1 and 1.75
// agree. And what becomes of 0, ∞ and NaN.
func TestMXScales(t *testing.T) {
	for _, c := range []struct {
		amax      float32
		up, floor byte
	}{
		{225, 127, 126}, {449, 128, 127}, {448, 127, 127}, {224, 126, 126}, {1, 119, 119}, {1.75, 119, 119},
		{0, 0, 0}, {inf32, 0xfe, 247}, {nan32, 0xff, 0xff}, {0x1p-149, 0, 0}, {math.MaxFloat32, 247, 246}, {0x1p-119, 0, 0}, {0x1.cp-118, 1, 1},
	} {
		require.Equal(t, c.up, mxUp.Scale(c.amax), "up of %v", c.amax)
		require.Equal(t, c.floor, mxFloor.Scale(c.amax), "floor of %v", c.amax)
	}
}

// The float32 next to 1/448 gives no other scale than a division would, at any of a binade's amaxes; the one
// above it would.
func TestMXReciprocal(t *testing.T) {
	for b := math.Float32bits(256); b < math.Float32bits(512); b++ {
		if amax := math.Float32frombits(b); mxUp.Scale(amax) != lowp.PowerUp(amax/448) {
			t.Fatalf("amax %v: %v, divided %v", amax, mxUp.Scale(amax), lowp.PowerUp(amax/448))
		}
	}
	above := math.Nextafter32(1.0/448, 1)
	require.NotEqual(t, mxUp.Scale(448), lowp.PowerUp(448*above), "negative control: another reciprocal")
}

// mxTwice quantises rows, dequantises and quantises again.
func mxTwice(x []float32, rule mxRule) (codes, scales, again, scales2 []byte, y, y2 []float32) {
	codes, scales, y = mxOnce(x, rule)
	again, scales2, y2 = mxOnce(y, rule)
	return
}

func mxOnce(x []float32, rule mxRule) (codes, scales []byte, y []float32) {
	codes, scales, y = make([]byte, len(x)), make([]byte, len(x)/mxBlock), make([]float32, len(x))
	quantiseMXRows(codes, scales, x, rule)
	dequantiseMXRows(y, codes, scales)
	return
}

// docs/facts.md, Low precision: quantising a dequantised copy drops a block's scale by one code iff 0 < max|q| ≤ 224 under
// TransformerEngine's rule, in 3 to 5 % of blocks; scales and codes move, values do not. Under OCP's it is idempotent.
func TestMXTwiceIsNotOnce(t *testing.T) {
	const blocks = 8192
	x := check.Random(rand.New(rand.NewPCG(7, 1)), blocks*mxBlock)
	clear(x[:mxBlock])
	codes, scales, again, scales2, y, y2 := mxTwice(x, mxUp)
	dropped := 0
	for b, e := range scales {
		var q float32
		for _, c := range codes[b*mxBlock:][:mxBlock] {
			q = max(q, float32(math.Abs(float64(lowp.E4M3.Decode(uint32(c))))))
		}
		if 0 < q && q <= 224 {
			require.Equal(t, e-1, scales2[b], "block %d", b)
			require.False(t, bytes.Equal(codes[b*mxBlock:][:mxBlock], again[b*mxBlock:][:mxBlock]))
			dropped++
			continue
		}
		require.Equal(t, e, scales2[b], "block %d", b)
		require.True(t, bytes.Equal(codes[b*mxBlock:][:mxBlock], again[b*mxBlock:][:mxBlock]))
	}
	require.Greater(t, dropped, blocks*3/100)
	require.Less(t, dropped, blocks*5/100)
	check.SameBits(t, y, y2, "values, of both")

	codes, scales, again, scales2, y, y2 = mxTwice(x, mxFloor)
	require.True(t, bytes.Equal(codes, again) && bytes.Equal(scales, scales2), "idempotent")
	check.SameBits(t, y, y2, "values, of both")
}

// docs/facts.md, Low precision: a step through bf16 changes 3.2 % of values. A copy is made from the source, not from a copy.
func TestMXFromBF16IsAnother(t *testing.T) {
	x := check.Random(rand.New(rand.NewPCG(7, 2)), 8192*mxBlock)
	_, _, y := mxOnce(x, mxUp)
	lowp.BF16.RoundSlice(x)
	_, _, z := mxOnce(x, mxUp)
	changed := 0
	for i := range y {
		if y[i] != z[i] {
			changed++
		}
	}
	require.InDelta(t, 0.032, float64(changed)/float64(len(x)), 0.001)
	_, _, again := mxOnce(x, mxUp)
	check.SameBits(t, z, again, "negative control: the same source")
}

// A column's blocks are the rows' blocks of the transpose, and another quantisation than the rows' own.
func TestMXColumnsAreRowsOfTheTranspose(t *testing.T) {
	const rows, d = 96, 64
	x, xt := check.Random(rand.New(rand.NewPCG(7, 3)), rows*d), make([]float32, rows*d)
	transpose(xt, x, d)
	for _, rule := range []mxRule{mxUp, mxFloor} {
		codes, scales, y := make([]byte, len(x)), make([]byte, len(x)/mxBlock), make([]float32, len(x))
		quantiseMXColumns(codes, scales, x, d, rule)
		dequantiseMXColumns(y, codes, scales, d)
		tcodes, tscales, ty := mxOnce(xt, rule)
		for i := range rows {
			for j := range d {
				require.Equal(t, tcodes[j*rows+i], codes[i*d+j])
				require.Equal(t, tscales[(j*rows+i)/mxBlock], scales[i/mxBlock*d+j])
				require.Equal(t, ty[j*rows+i], y[i*d+j])
			}
		}
		byRows, _, _ := mxOnce(x, rule)
		require.False(t, bytes.Equal(byRows, codes), "negative control")
	}
}

// A NaN, and an infinity, stay in their block.
func TestMXOfWhatIsNotFinite(t *testing.T) {
	x := check.Random(rand.New(rand.NewPCG(7, 4)), 4*mxBlock)
	_, _, clean := mxOnce(x, mxUp)
	x[3], x[mxBlock+5] = nan32, -inf32
	codes, scales, y := mxOnce(x, mxUp)
	require.EqualValues(t, 0xff, scales[0])
	require.True(t, y[0] != y[0] && y[3] != y[3], "all of a block with NaN")
	require.EqualValues(t, 0xfe, scales[1])
	require.EqualValues(t, 0xfe, codes[mxBlock+5], "−448")
	check.SameBits(t, clean[2*mxBlock:], y[2*mxBlock:], "the other blocks")
	require.Panics(t, func() { quantiseMXRows(codes, scales, x[1:], mxUp) })
	require.Panics(t, func() { quantiseMXColumns(codes, scales, x, 3, mxUp) })
}
