package optim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// A segment's gradient is read where the sum lies by then, though it was read elsewhere before. A sum that is all the segment's is read as it is.
func TestGradientLiesWhereTheSumDoes(t *testing.T) {
	sum, moved := device.NewTensor(lowp.FP32, 5), device.NewTensor(lowp.FP32, 5)
	for i := range sum.Len() {
		sum.Set(i, float64(i))
		moved.Set(i, float64(10+i))
	}
	s := &Segment{Lo: 7, Hi: 9, views: map[*device.Tensor]*device.Tensor{}}
	require.Nil(t, s.gradient(), "there was no step")
	s.sum, s.from = sum, 2
	require.Equal(t, []float32{2, 3}, s.gradient().F32())
	require.Same(t, s.gradient(), s.gradient())
	sum.Alias(moved)
	require.Equal(t, []float32{12, 13}, s.gradient().F32())
	s.from = 3
	require.Equal(t, []float32{13, 14}, s.gradient().F32())
	s.sum = device.NewTensor(lowp.FP32, 2)
	require.Same(t, s.sum, s.gradient())
}
