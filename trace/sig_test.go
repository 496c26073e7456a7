package trace

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// What is signed without being a tensor has the one NaN too, and the definition says which.
func TestSignaturesOfNaN(t *testing.T) {
	var s signer
	one, other := math.NaN(), math.Float64frombits(0xfff8000000000000)
	require.Equal(t, s.scalar(device.Scalar{Name: "x", Value: one}), s.scalar(device.Scalar{Name: "x", Value: other}))
	require.NotEqual(t, s.scalar(device.Scalar{Value: one}), s.scalar(device.Scalar{Value: 1}), "negative control")
	partial := func(b uint32, v float64) string {
		return s.partial(device.Partial{F32: []float32{1, math.Float32frombits(b)}}).Digest + s.partial(device.Partial{F64: []float64{v}}).Digest
	}
	require.Equal(t, partial(0x7fc00000, one), partial(0xffc00001, other))
	require.NotEqual(t, partial(0x7fc00000, one), partial(0x7f800000, one), "negative control")
	var patterns []string
	for _, f := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP16, lowp.FP64, lowp.E4M3, lowp.E5M2, lowp.E8M0} {
		patterns = append(patterns, fmt.Sprintf("%s %0*x", f, f.Bits()/4, f.NaN()))
	}
	require.True(t, strings.HasSuffix(Digests["nan"], strings.Join(patterns, ", ")), Digests["nan"])
}

// Tensors without elements, of whatever shape and format.
func TestSignaturesOfNothing(t *testing.T) {
	var s signer
	for _, f := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP64, lowp.INT32, lowp.E4M3, lowp.E2M1} {
		seen := map[string]bool{}
		for _, shape := range [][]int{{0}, {0, 4}, {4, 0}, {0, 0}, {2, 0, 3}} {
			g := s.tensor(device.Arg{Name: "x", Tensor: device.NewTensor(f, shape...)})
			require.Zero(t, g.Numel)
			require.Empty(t, g.Rows)
			require.Equal(t, "0000000000000000", g.XOR)
			require.False(t, seen[g.Digest], "%v %v: the shape is part of it", f, shape)
			seen[g.Digest] = true
		}
	}
}
