package lowp

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

var exhaustive = flag.Bool("exhaustive", false, "round every float32 there is: minutes")

// nearest is the definition of rounding by arithmetic alone: x as a multiple of the step of
// its binade, rounded to an integer, ties to even. Every operation but that one is exact.
func nearest(fraction, minExp int, largest, x float64) float64 {
	if x == 0 || math.IsInf(x, 0) {
		return x
	}
	_, e := math.Frexp(x) // x = m·2ᵉ, ½ ≤ m < 1
	step := math.Ldexp(1, max(e-1, minExp)-fraction)
	y := math.Copysign(math.RoundToEven(x/step)*step, x)
	if math.Abs(y) > largest {
		return math.Inf(int(math.Copysign(1, x)))
	}
	return y
}

var rounders = []struct {
	f                Format
	fraction, minExp int
	largest          float64
}{{BF16, 7, -126, 0x1.fep127}, {FP16, 10, -14, 65504}}

// A prime stride through all float32, and every one of them when asked to.
func TestRoundIsNearest(t *testing.T) {
	stride := uint64(2003)
	if *exhaustive {
		stride = 1
	}
	for _, r := range rounders {
		for b := uint64(0); b < 1<<32; b += stride {
			x := math.Float32frombits(uint32(b))
			got := r.f.Round(x)
			if x != x {
				if math.Float32bits(got) != 0x7fc00000 {
					t.Fatalf("%v: NaN %08x became %08x", r.f, b, math.Float32bits(got))
				}
				continue
			}
			if want := nearest(r.fraction, r.minExp, r.largest, float64(x)); math.Float64bits(want) != math.Float64bits(float64(got)) {
				t.Fatalf("%v: %08x = %x became %x, want %x", r.f, b, x, got, want)
			}
		}
	}
}

// Between every two neighbouring values: the midpoint goes to the even code, and a float32 step
// either side of it to the nearer. The neighbours are exact in float32 and so is the midpoint.
func TestMidpointsGoToTheEvenCode(t *testing.T) {
	for _, f := range small {
		inf := f.Encode(float32(math.Inf(1)))
		for c := range inf {
			lo, hi := defined(f, c), defined(f, c+1)
			if c+1 == inf { // where the next value would be
				hi = lo + (lo - defined(f, c-1))
			}
			mid := float32((lo + hi) / 2)
			even := c + c&1
			require.Equal(t, even, f.Encode(f.Round(mid)), "%v midpoint above %04x", f, c)
			require.Equal(t, even|1<<15, f.Encode(f.Round(-mid)))
			require.Equal(t, c, f.Encode(f.Round(math.Nextafter32(mid, 0))))
			require.Equal(t, c+1, f.Encode(f.Round(math.Nextafter32(mid, math.MaxFloat32))))
		}
	}
}

// The definition sees a rounding that is off: ties away from 0 and truncation differ from it.
func TestNearestNegativeControl(t *testing.T) {
	tie := 1 + 0x1p-8 // between the bf16 1 and 1+2⁻⁷
	require.Equal(t, 1.0, nearest(7, -126, 0x1.fep127, tie))
	require.NotEqual(t, nearest(7, -126, 0x1.fep127, tie), math.Round(tie*0x1p7)*0x1p-7)
	above := math.Nextafter(tie, 2)
	require.NotEqual(t, nearest(7, -126, 0x1.fep127, above), math.Trunc(above*0x1p7)*0x1p-7)
	require.Equal(t, 0x1p-24, nearest(10, -14, 65504, 0x1.8p-25), "subnormals keep their step")
}

func TestSliceEqualsElement(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for f := range formats {
		x := make([]float32, 1<<16)
		for i := range x {
			x[i] = math.Float32frombits(r.Uint32())
		}
		copy(x, []float32{math.MaxFloat32, -math.MaxFloat32, float32(math.Inf(1)), 0, 65520, 0x1p-133, 0x1p-134})
		y := append([]float32(nil), x...)
		f.RoundSlice(y)
		for i := range x {
			require.Equal(t, math.Float32bits(f.Round(x[i])), math.Float32bits(y[i]), "%v of %x", f, x[i])
		}
	}
}

var sink float32

func BenchmarkRound(b *testing.B) {
	for _, f := range small {
		b.Run(f.String(), func(b *testing.B) {
			x := float32(1)
			for range b.N {
				sink += f.Round(x)
				x += 0x1p-10
			}
		})
	}
}

func BenchmarkSlices(b *testing.B) {
	x := make([]float32, 4096)
	for i := range x {
		x[i] = BF16.Round(float32(i))
	}
	buf := make([]byte, 0, 4*len(x))
	for _, f := range []Format{FP32, BF16, FP16} {
		b.Run("RoundSlice/"+f.String(), func(b *testing.B) {
			b.SetBytes(int64(4 * len(x)))
			for range b.N {
				f.RoundSlice(x)
			}
		})
		b.Run("AppendBytes/"+f.String(), func(b *testing.B) {
			b.SetBytes(int64(4 * len(x)))
			for range b.N {
				f.AppendBytes(buf, x)
			}
		})
	}
}
