package dense

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gorgonia.org/tensor"

	"firstbit/reduce"
)

// Sums of other Go libraries are revealed as any box is: each is a tree that its answers confirm.
func TestSumsOfOthersAreRevealed(t *testing.T) {
	const n = 64
	vector := func(x []float32, shape ...int) *tensor.Dense {
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(slices.Clone(x)))
	}
	ones := make([]float32, n)
	for i := range ones {
		ones[i] = 1
	}
	for name, c := range map[string]struct {
		sum    reduce.Box
		detail string
	}{
		"gonum floats.Sum": {func(x []float32) (float64, error) {
			wide := make([]float64, n)
			for i, v := range x {
				wide[i] = float64(v)
			}
			return floats.Sum(wide), nil
		}, "partial sums in fp64"},
		"gorgonia tensor.Sum": {func(x []float32) (float64, error) {
			s, err := vector(x, n).Sum()
			return float64(s.Data().(float32)), err
		}, ""},
		"gorgonia MatMul": {func(x []float32) (float64, error) {
			y, err := tensor.MatMul(vector(x, 1, n), vector(ones, n, 1))
			return float64(y.Data().([]float32)[0]), err
		}, ""},
	} {
		r, err := reduce.RevealBox(n, c.sum, reduce.Formats{})
		require.NoError(t, err, name)
		t.Logf("%s: %s, %s %s", name, r.Class, r.Detail, r.Tree)
		require.True(t, r.Verified, "%s: %+v", name, r)
		require.Equal(t, c.detail, r.Detail, name)
	}
}
