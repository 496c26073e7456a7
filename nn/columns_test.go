package nn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// Groups of columns, each with its share of every part: two groups of a part of four columns and one of two.
func TestSplitAndConcatByGroups(t *testing.T) {
	d := device.New(device.Options{})
	d.At(1, 0, device.Fwd)
	x := device.NewTensor(lowp.FP32, 2, 6)
	for i := range x.Len() {
		x.Set(i, float64(i))
	}
	var parts [2]*device.Tensor
	SplitGroups(d, "split", x, parts[:], 2, 4, 2)
	require.Equal(t, []float32{0, 1, 3, 4, 6, 7, 9, 10}, parts[0].F32())
	require.Equal(t, []float32{2, 5, 8, 11}, parts[1].F32())
	require.Equal(t, x.F32(), ConcatGroups(d, "concat", 2, parts[:]...).F32(), "the inverse")
	require.Equal(t, []float32{0, 1, 3, 4, 2, 5}, Concat(d, "by kind", parts[:]...).F32()[:6], "negative control: one group")
}
