package lowp

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

var small = []Format{BF16, FP16}

// defined is the value of a 16-bit code by IEEE 754-2019 §3.4, bf16 as an 8-bit exponent and
// 7 fraction bits: no bit of float32 is used.
func defined(f Format, c uint32) float64 {
	fraction, bias := 10, 15
	if f == BF16 {
		fraction, bias = 7, 127
	}
	sign := 1.0
	if c>>15 == 1 {
		sign = -1
	}
	m, e := float64(c&(1<<fraction-1)), int(c>>fraction)&(1<<(15-fraction)-1)
	switch {
	case e == 1<<(15-fraction)-1 && m != 0:
		return math.NaN()
	case e == 1<<(15-fraction)-1:
		return sign * math.Inf(1)
	case e == 0:
		return math.Copysign(math.Ldexp(m, 1-bias-fraction), sign)
	}
	return math.Copysign(math.Ldexp(m+math.Ldexp(1, fraction), e-bias-fraction), sign)
}

func TestEveryCodeIsItsDefinition(t *testing.T) {
	for _, f := range small {
		for c := range uint32(1 << 16) {
			want, got := defined(f, c), f.Decode(c)
			if math.IsNaN(want) {
				require.True(t, got != got, "%v code %04x", f, c)
				require.Equal(t, uint32(0x7fc00000), math.Float32bits(f.Round(got)))
				require.EqualValues(t, f.NaN(), f.Encode(got), "%v code %04x", f, c)
			} else {
				require.Equal(t, math.Float64bits(want), math.Float64bits(float64(got)), "%v code %04x", f, c)
				require.Equal(t, math.Float32bits(got), math.Float32bits(f.Round(got)), "%v code %04x rounds to itself", f, c)
				require.Equal(t, c, f.Encode(got), "%v code %04x", f, c)
			}
		}
	}
}

// Known encodings: IEEE 754 half and bfloat16 as NumPy and PyTorch print them.
func TestKnownCodes(t *testing.T) {
	for _, k := range []struct {
		f Format
		x float32
		c uint32
	}{
		{FP16, 1, 0x3c00}, {FP16, 65504, 0x7bff}, {FP16, 0x1p-24, 1}, {FP16, -2, 0xc000}, {FP16, 0x1p-14, 0x0400},
		{FP16, 1.0 / 3, 0x3555}, {BF16, 1, 0x3f80}, {BF16, 256, 0x4380}, {BF16, 3.140625, 0x4049}, {BF16, 0x1p-133, 1},
		{FP32, 1, 0x3f800000},
	} {
		require.Equal(t, k.c, k.f.Encode(k.x), "%v %v", k.f, k.x)
	}
	require.Equal(t, float32(0.10009765625), BF16.Round(0.1), "docs/facts.md, Fingerprints: bf16 0.1")
	require.Equal(t, float32(65504), FP16.Round(65519))
	require.True(t, math.IsInf(float64(FP16.Round(65520)), 1), "the largest value and half a step")
	require.True(t, math.IsInf(float64(BF16.Round(-math.MaxFloat32)), -1))
}

// Encoding rounds, so that it is total.
func TestEncodeOfWhatIsNotAValue(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, f := range small {
		for range 100000 {
			if x := math.Float32frombits(r.Uint32()); x == x {
				require.Equal(t, f.Encode(f.Round(x)), f.Encode(x), "%v %x", f, x)
				require.Equal(t, math.Float32bits(f.Round(x)), math.Float32bits(f.Decode(f.Encode(x))), "%v %x", f, x)
			}
		}
	}
}

func TestBytes(t *testing.T) {
	require.Equal(t, []byte{9, 0x80, 0x3f, 0, 0xc0}, BF16.AppendBytes([]byte{9}, []float32{1, -2}))
	require.Equal(t, []byte{0, 0x3c, 0, 0xc0}, FP16.AppendBytes(nil, []float32{1, -2}))
	require.Equal(t, []byte{0, 0, 0x80, 0x3f}, FP32.AppendBytes(nil, []float32{1}))
	r := rand.New(rand.NewPCG(1, 1))
	for _, f := range []Format{FP32, BF16, FP16} {
		x := make([]float32, 4096)
		for i := range x {
			if x[i] = f.Round(math.Float32frombits(r.Uint32())); x[i] != x[i] {
				x[i] = math.Float32frombits(0x7fc00000)
			}
		}
		b := f.AppendBytes(nil, x)
		require.Len(t, b, len(x)*f.Bits()/8)
		for i, v := range f.FromBytes(b) {
			require.Equal(t, math.Float32bits(x[i]), math.Float32bits(v))
		}
	}
	require.Panics(t, func() { BF16.FromBytes(make([]byte, 3)) })
}

func TestUlps(t *testing.T) {
	inf, tiny := float32(math.Inf(1)), float32(math.SmallestNonzeroFloat32)
	for _, c := range []struct {
		f    Format
		a, b float32
		want uint64
	}{
		{FP32, 1, 1, 0}, {FP32, 1, math.Nextafter32(1, 2), 1}, {FP32, 1, math.Nextafter32(1, 0), 1},
		{FP32, 1, 2, 1 << 23}, {FP32, 0, float32(math.Copysign(0, -1)), 1}, {FP32, tiny, -tiny, 3},
		{FP32, math.MaxFloat32, inf, 1}, {FP32, inf, -inf, 2*0x7f800000 + 1},
		{BF16, 1, 1.0078125, 1}, {BF16, 1, 2, 128}, {FP16, 1, 2, 1024}, {FP16, 65504, inf, 1}, {FP16, -0x1p-24, 0x1p-24, 3},
	} {
		require.Equal(t, c.want, c.f.Ulps(c.a, c.b), "%v %v %v", c.f, c.a, c.b)
		require.Equal(t, c.want, c.f.Ulps(c.b, c.a), "%v %v %v", c.f, c.b, c.a)
	}
	require.Positive(t, FP32.Ulps(1, float32(math.NaN())))
	require.Zero(t, FP32.Ulps(math.Float32frombits(0xffc12345), float32(math.NaN())), "NaNs are one")
}

func TestTable(t *testing.T) {
	for _, c := range []struct {
		f              Format
		name           string
		bits           int
		float          bool
		unit, max, min float64
	}{
		{FP32, "fp32", 32, true, 0x1p-24, math.MaxFloat32, math.SmallestNonzeroFloat32},
		{BF16, "bf16", 16, true, 0x1p-8, 0x1.fep127, 0x1p-133},
		{FP16, "fp16", 16, true, 0x1p-11, 65504, 0x1p-24},
		{FP64, "fp64", 64, true, 0x1p-53, math.MaxFloat64, math.SmallestNonzeroFloat64},
		{INT32, "int32", 32, false, 0x1p-32, math.MaxInt32, 1},
		{E4M3, "e4m3", 8, true, 0x1p-4, 448, 0x1p-9},
		{E5M2, "e5m2", 8, true, 0x1p-3, 57344, 0x1p-16},
		{E2M1, "e2m1", 4, true, 0x1p-2, 6, 0.5},
		{E8M0, "e8m0", 8, true, 0x1p-1, 0x1p127, 0x1p-127},
	} {
		require.Equal(t, c.name, c.f.String())
		parsed, err := Parse(c.name)
		require.NoError(t, err)
		require.Equal(t, c.f, parsed)
		require.Equal(t, c.bits, c.f.Bits())
		require.Equal(t, c.float, c.f.Float())
		require.Equal(t, c.unit, c.f.Unit(), c.name)
		require.Equal(t, c.max, c.f.Max(), c.name)
		require.Equal(t, c.min, c.f.MinSubnormal(), c.name)
	}
	require.EqualValues(t, 9, formats, "a new format is a new row here")
	_, err := Parse("fp7")
	require.EqualError(t, err, `format "fp7": must be one of fp32, bf16, fp16, fp64, int32, e4m3, e5m2, e2m1, e8m0`)
}

// fp64 and int32 have no float32 codes; asking for them is a caller's bug.
func TestFormatsThatAreNotFloat32(t *testing.T) {
	for _, f := range []Format{FP64, INT32} {
		require.Equal(t, float32(0.1), f.Round(0.1))
		for _, ask := range []func(){
			func() { f.Encode(1) }, func() { f.Decode(1) }, func() { f.Ulps(1, 2) },
			func() { f.AppendBytes(nil, nil) }, func() { f.FromBytes(nil) },
		} {
			require.PanicsWithValue(t, "lowp: the codes of fp64 and int32 are not made of float32", ask)
		}
	}
}
