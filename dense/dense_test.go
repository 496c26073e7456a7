package dense

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"firstbit/device"
	"firstbit/lowp"
)

func view(t *testing.T, x *device.Tensor) *tensor.Dense {
	d, err := View(x)
	require.NoError(t, err)
	return d
}

// Arithmetic that bypasses the device is refused on a view; slices work.
func TestArithmeticOnAViewIsRefused(t *testing.T) {
	for _, f := range []lowp.Format{lowp.FP32, lowp.FP64, lowp.INT32} {
		a, b := view(t, device.NewTensor(f, 2, 2)), view(t, device.NewTensor(f, 2, 2))
		for name, do := range map[string]func() (any, error){
			"Add":        func() (any, error) { return a.Add(b) },
			"Sub":        func() (any, error) { return a.Sub(b) },
			"Mul":        func() (any, error) { return a.Mul(b) },
			"Div":        func() (any, error) { return a.Div(b) },
			"AddScalar":  func() (any, error) { return a.AddScalar(b, true) },
			"MatMul":     func() (any, error) { return a.MatMul(b) },
			"Sum":        func() (any, error) { return a.Sum() },
			"Max":        func() (any, error) { return a.Max() },
			"tensor.Add": func() (any, error) { return tensor.Add(a, b) },
			"tensor.Dot": func() (any, error) { return tensor.Dot(a, b) },
			"tensor.Exp": func() (any, error) { return tensor.Exp(a) },
			"tensor.Sum": func() (any, error) { return tensor.Sum(a) },
		} {
			require.Error(t, refused(do), "%s of %s", name, f)
		}
		_, err := a.Slice(tensor.S(0, 1))
		require.NoError(t, err)
	}
	// Negative control: with the library's own engine the same call goes through.
	free, err := Copy(device.NewTensor(lowp.FP32, 2, 2))
	require.NoError(t, err)
	_, err = free.Add(free)
	require.NoError(t, err)
}

// refused is the error of an operation. Where the library allocates the result first (MatMul), it panics
// with our engine's error instead of returning it.
func refused(do func() (any, error)) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = r.(error)
		}
	}()
	_, err = do()
	return err
}

func TestAViewIsTheSameMemoryAndACopyIsNot(t *testing.T) {
	for _, f := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP64, lowp.INT32} {
		x := device.NewTensor(f, 2, 3, 4)
		d := view(t, x)
		c, err := Copy(x)
		require.NoError(t, err)
		x.Set(5, 3)
		require.Equal(t, []int{2, 3, 4}, []int(d.Shape()))
		for _, s := range []struct {
			d    *tensor.Dense
			want float64
		}{{d, 3}, {c, 0}} {
			v, err := s.d.At(0, 1, 1)
			require.NoError(t, err)
			require.EqualValues(t, s.want, v, f)
		}
	}
	_, err := View(device.NewTensor(lowp.FP32, 0, 3))
	require.ErrorContains(t, err, "shape [0 3] has no elements")
	_, err = Copy(device.NewTensor(lowp.INT32, 0))
	require.Error(t, err)
}

func ExampleView() {
	x := device.NewTensor(lowp.FP32, 2, 3)
	for i := range x.Len() {
		x.Set(i, float64(i))
	}
	d, err := View(x)
	if err != nil {
		panic(err)
	}
	row, err := d.Slice(tensor.S(1))
	if err != nil {
		panic(err)
	}
	fmt.Println(row)
	// Output: [3  4  5]
}

func ExampleCopy() {
	x := device.NewTensor(lowp.BF16, 4)
	for i := range x.Len() {
		x.Set(i, float64(i))
	}
	d, err := Copy(x)
	if err != nil {
		panic(err)
	}
	sum, err := d.Sum()
	if err != nil {
		panic(err)
	}
	fmt.Println(sum)
	// Output: 6
}
