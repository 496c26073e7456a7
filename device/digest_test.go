package device

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
)

// other32 and other64 are NaNs as other processors make them, and signalling ones.
var (
	other32 = []uint32{0xffc00000, 0x7fc00001, 0xff800001, 0x7fffffff}
	other64 = []uint64{0xfff8000000000000, 0x7ff8000000000001, 0xfff0000000000001, math.MaxUint64}
)

// nanTensor has a NaN of the given bits between numbers.
func nanTensor(f lowp.Format, b32 uint32, b64 uint64, n int) *Tensor {
	t := NewTensor(f, n, 3)
	for i := range t.Len() {
		t.Set(i, float64(i%5)-2)
	}
	for _, i := range []int{0, 1, t.Len() / 2, t.Len() - 1} {
		if f == lowp.FP64 {
			t.F64()[i] = math.Float64frombits(b64)
		} else {
			t.F32()[i] = math.Float32frombits(b32)
		}
	}
	return t
}

// The sign and the payload of a NaN are no difference: in bytes, digest, XOR and printed bits.
func TestNaNsAreOne(t *testing.T) {
	for _, f := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP16, lowp.FP64, lowp.E4M3, lowp.E5M2, lowp.E8M0} {
		for _, n := range []int{1, 2, 40} {
			want := nanTensor(f, 0x7fc00000, 0x7ff8000000000000, n)
			for i := range other32 {
				got := nanTensor(f, other32[i], other64[i], n)
				require.Equal(t, want.Bytes(nil), got.Bytes(nil), f)
				require.Equal(t, want.Digest(nil), got.Digest(make([]byte, 0, 8*want.Len())), f)
				require.Equal(t, want.XOR(), got.XOR(), f)
				require.Equal(t, want.Bits(0), got.Bits(0), f)
			}
			number := nanTensor(f, 0x7fc00000, 0x7ff8000000000000, n)
			number.Set(number.Len()-1, 1)
			require.NotEqual(t, want.Digest(nil), number.Digest(nil), "%v: negative control", f)
			require.NotEqual(t, want.XOR(), number.XOR(), "%v: negative control", f)
		}
	}
}

// Without a NaN, elements that are their bytes are hashed where they lie.
func TestDigestCopiesNothing(t *testing.T) {
	for _, f := range []lowp.Format{lowp.FP32, lowp.FP64, lowp.INT32} {
		x := NewTensor(f, 1000)
		require.Zero(t, testing.AllocsPerRun(20, func() { x.Digest(nil) }), f)
	}
	x := nanTensor(lowp.FP32, other32[0], other64[0], 1000)
	require.NotZero(t, testing.AllocsPerRun(20, func() { x.Digest(nil) }), "negative control")
	require.EqualValues(t, other32[0], math.Float32bits(x.F32()[0]), "the tensor keeps what it holds")
}

// Go leaves conversions of what an integer cannot hold to the processor.
func TestSetOfWhatIsNoInteger(t *testing.T) {
	x := NewTensor(lowp.INT32, 1)
	for v, want := range map[float64]int32{1e30: math.MaxInt32, -1e30: math.MinInt32, math.Inf(1): math.MaxInt32, -7.9: -7, 2147483647: math.MaxInt32} {
		x.Set(0, v)
		require.Equal(t, want, x.I32()[0], v)
	}
	x.Set(0, math.NaN())
	require.Zero(t, x.I32()[0])
}

func BenchmarkDigest(b *testing.B) {
	for _, f := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP64, lowp.E4M3} {
		for _, n := range []int{1 << 12, 1 << 20} {
			t := NewTensor(f, n)
			for i := range n {
				t.Set(i, float64(i%97)-40)
			}
			buf := make([]byte, 0, 8*n)
			for name, hash := range map[string]func(){"digest": func() { t.Digest(buf) }, "xor": func() { t.XOR() }} {
				b.Run(fmt.Sprintf("%s/%v/%d", name, f, n), func(b *testing.B) {
					b.SetBytes(int64(n * f.Bits() / 8))
					for b.Loop() {
						hash()
					}
				})
			}
		}
	}
}
