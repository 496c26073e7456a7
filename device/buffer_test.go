package device

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
)

func counting(f lowp.Format, from int, shape ...int) *Tensor {
	t := NewTensor(f, shape...)
	for i := range t.Len() {
		t.Set(i, float64(from+i))
	}
	return t
}

func values(t *Tensor) (v []float64) {
	for i := range t.Len() {
		v = append(v, t.Value(i))
	}
	return v
}

// What is laid into a buffer keeps its values and its shape, and is the buffer's from then on; what is held lies where it did, and so does what a
// fault lays elsewhere: both are copied to and fro. A gap stays what it was.
func TestBuffer(t *testing.T) {
	for _, f := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP64, lowp.INT32} {
		b := NewBuffer(f, 11)
		laid, held, moved, empty := counting(f, 1, 2, 3), counting(f, 10, 2), counting(f, 20, 2), NewTensor(f, 0)
		b.Lay(0, "laid", laid)
		b.Hold(6, "held", held)
		b.Lay(6, "empty", empty)
		b.Lay(9, "moved", moved) // 8 is a gap
		require.Equal(t, []int{2, 3}, laid.Shape())
		require.Equal(t, []float64{1, 2, 3, 4, 5, 6, 0, 0, 0, 20, 21}, values(b.Whole))
		b.Collect()
		require.Equal(t, []float64{1, 2, 3, 4, 5, 6, 10, 11, 0, 20, 21}, values(b.Whole))

		laid.Set(0, 7)
		require.EqualValues(t, 7, b.Whole.Value(0))
		b.Whole.Set(5, 8)
		require.EqualValues(t, 8, laid.Value(5))
		held.Set(0, 9)
		require.EqualValues(t, 10, b.Whole.Value(6), "it lies elsewhere")

		moved.Alias(counting(f, 30, 2))
		b.Collect()
		require.Equal(t, []float64{7, 2, 3, 4, 5, 8, 9, 11, 0, 30, 31}, values(b.Whole))
		for i := range b.Whole.Len() {
			b.Whole.Set(i, float64(40+i))
		}
		b.Spread()
		require.Equal(t, []float64{40, 41, 42, 43, 44, 45}, values(laid))
		require.Equal(t, []float64{46, 47}, values(held))
		require.Equal(t, []float64{49, 50}, values(moved))

		b.Clear()
		require.Empty(t, b.Tensors)
		b.Hold(0, "other", counting(f, 1, 1))
		b.Collect()
		require.Equal(t, []float64{1, 41}, values(b.Whole)[:2])
	}
}

// A tensor's own memory is a buffer without a copy.
func TestBufferOf(t *testing.T) {
	x := counting(lowp.FP32, 1, 2, 2)
	b := BufferOf("x", x)
	x.Set(1, 7)
	require.Equal(t, []float64{1, 7, 3, 4}, values(b.Whole))
	b.Whole.Set(2, 8)
	b.Collect()
	b.Spread()
	require.Equal(t, []float64{1, 7, 8, 4}, values(x))
	x.Alias(counting(lowp.FP32, 20, 4)) // what is laid elsewhere is copied to and fro
	b.Collect()
	require.Equal(t, []float64{20, 21, 22, 23}, values(b.Whole))
}
