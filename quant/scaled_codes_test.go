package quant

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel/check"
	"firstbit/lowp"
)

var (
	inf32 = float32(math.Inf(1))
	nan32 = float32(math.NaN())
)

func floats(b []byte) []float32 {
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

// The copies of a matrix that NumPy and ml_dtypes make, by parity/lowprecision.py: every code and scale.
func TestQuantisersAreMlDtypes(t *testing.T) {
	text, err := os.ReadFile("../parity/testdata/lowprecision/quantised")
	require.NoError(t, err)
	want := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		name, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		want[name], err = hex.DecodeString(digits)
		require.NoError(t, err)
	}
	const d = 64
	x, wild := floats(want["tame"]), floats(want["wild"])
	require.Len(t, x, 32*d)
	require.Len(t, wild, 32*d)
	checked := 2
	check := func(name string, got []byte) {
		require.NotEmpty(t, want[name], name)
		require.True(t, bytes.Equal(want[name], got), name)
		got[len(got)/2] ^= 1
		require.False(t, bytes.Equal(want[name], got), "negative control")
		checked++
	}
	for _, f := range []lowp.Format{lowp.E4M3, lowp.E5M2} {
		scale, inverse := currentScale(f, lowp.AbsMax(x))
		check(f.String()+".scale", lowp.FP32.AppendBytes(nil, []float32{scale, inverse}))
		codes := make([]byte, len(x))
		quantiseScaled(f, codes, x, scale)
		check(f.String()+".codes", codes)
	}
	for rule, name := range map[mxRule]string{mxUp: "mx.up", mxFloor: "mx.floor"} {
		codes, scales := make([]byte, len(x)), make([]byte, len(x)/mxBlock)
		quantiseMXRows(codes, scales, wild, rule)
		check(name+".rows.codes", codes)
		check(name+".rows.scales", scales)
		quantiseMXColumns(codes, scales, wild, d, rule)
		check(name+".columns.codes", codes)
		check(name+".columns.scales", scales)
	}
	for name, x := range map[string][]float32{"nvfp4.tame": x, "nvfp4.wild": wild} {
		codes, scales := make([]byte, len(x)/2), make([]byte, len(x)/nvBlock)
		tensor := nvTensorScale(lowp.AbsMax(x))
		quantiseNVFP4(codes, scales, x, tensor, nil)
		check(name+".rows.codes", codes)
		check(name+".rows.scales", scales)
		scales = scales[:len(scales)/nvBlock]
		quantiseNVFP4Square(codes, scales, x, d, tensor)
		check(name+".square.codes", codes)
		check(name+".square.scales", scales)
	}
	require.Equal(t, len(want), checked, "every line of the file")
}

func TestAmax(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for n := range 20 {
		x := check.Random(r, n)
		var want float32
		for _, v := range x {
			want = max(want, float32(math.Abs(float64(v))))
		}
		require.Equal(t, want, lowp.AbsMax(x))
		if n > 0 {
			x[r.IntN(n)] = -inf32
			require.Equal(t, inf32, lowp.AbsMax(x))
			x[r.IntN(n)] = nan32
			require.True(t, math.IsNaN(float64(lowp.AbsMax(x))))
		}
	}
}

// TransformerEngine's compute_scale_from_amax.
func TestCurrentScale(t *testing.T) {
	for _, c := range []struct{ amax, scale float32 }{
		{448, 1}, {3, float32(448) / 3}, {1e30, float32(448) / 1e30}, {0, 1}, {inf32, 1}, {nan32, 1}, {0x1p-149, math.MaxFloat32},
	} {
		scale, inverse := currentScale(lowp.E4M3, c.amax)
		require.Equal(t, c.scale, scale, c.amax)
		require.Equal(t, 1/c.scale, inverse)
	}
	scale, _ := currentScale(lowp.E5M2, 3)
	require.Equal(t, float32(57344)/3, scale)
	require.NotEqual(t, float32(0x1p14), scale, "negative control: not cut to a power of two")
}

// The amax history is state of training: the scale of step t comes from steps before t.
func TestDelayedScale(t *testing.T) {
	history := []float32{2, 8, 4, 1} // this step's, then the oldest to the latest
	scale, inverse := delayedScale(lowp.E4M3, history, 7, false, 0)
	require.Equal(t, float32(56), scale, "by the largest")
	require.Equal(t, float32(1)/56, inverse)
	require.Equal(t, []float32{0, 4, 1, 2}, history)
	history[0] = 3
	scale, _ = delayedScale(lowp.E4M3, history, scale, false, 0)
	require.Equal(t, float32(112), scale, "8 has left the window")
	require.Equal(t, []float32{0, 1, 2, 3}, history)
	recent, _ := delayedScale(lowp.E5M2, []float32{2, 8}, 7, true, 1)
	require.Equal(t, float32(57344/2/2), recent)
	for _, amax := range []float32{0, inf32, nan32} {
		was, _ := delayedScale(lowp.E4M3, []float32{amax}, 7, true, 0)
		require.Equal(t, float32(7), was, "kept for %v", amax)
	}
	passed, _ := delayedScale(lowp.E4M3, []float32{nan32, 2}, 7, false, 0)
	require.Equal(t, float32(224), passed, "a NaN is passed over where there is a number")
	third, back := delayedScale(lowp.E4M3, []float32{3}, 7, true, 0)
	require.Equal(t, float32(448)/3, third)
	require.NotEqual(t, float32(448)*(float32(1)/3), third, "negative control: the quotient is rounded once")
	require.Equal(t, 1/third, back)
	tiny, _ := delayedScale(lowp.E4M3, []float32{0x1p-149}, 7, true, 0)
	require.Equal(t, float32(math.MaxFloat32), tiny)
}

func TestScaledRoundTrip(t *testing.T) {
	x := check.Random(rand.New(rand.NewPCG(9, 9)), 4096)
	for _, f := range []lowp.Format{lowp.E4M3, lowp.E5M2} {
		scale, inverse := currentScale(f, lowp.AbsMax(x))
		codes, y := make([]byte, len(x)), make([]float32, len(x))
		quantiseScaled(f, codes, x, scale)
		dequantiseScaled(f, y, codes, inverse)
		for i, v := range x {
			want := float32(f.Round(float32(v*scale)) * inverse)
			require.Equal(t, math.Float32bits(want), math.Float32bits(y[i]))
		}
	}
}
