package moe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// Rows stand where their tokens do in a block, whichever other tokens their expert has; cut by what is present they would follow one another.
func TestRowsInBlocksOfTokens(t *testing.T) {
	ints := func(x ...int32) *device.Tensor {
		y := device.NewTensor(lowp.INT32, len(x))
		copy(y.I32(), x)
		return y
	}
	dev := device.New(device.Options{})
	dev.At(1, 0, device.Bwd)
	x := Experts{tokens: ints(1, 2, 9, 5, 12, 15), bounds: ints(0, 2, 3, 3, 6), offsets: ints(0, 3, 6), sources: 2} // expert 0 of two sources, expert 1 of the second
	b := x.blocksOf(dev, 4)
	require.Equal(t, []int32{-1, 0, 1, -1, -1, 2, -1, -1, -1, 3, -1, -1, 4, -1, -1, 5}, b.order.I32())
	require.Equal(t, []int32{0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15}, b.tokens.I32())
	require.Equal(t, []int32{0, 4, 8, 8, 16}, b.bounds.I32())
	require.Equal(t, []int32{0, 8, 16}, b.offsets.I32())
	require.Same(t, b, x.blocksOf(dev, 4), "once a backward")
}
