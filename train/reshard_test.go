package train

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/checkpoint"
	"firstbit/device"
)

// A stream that no rank drew from neither repeats the beginning nor what another restart draws.
func TestStreamsAnew(t *testing.T) {
	c := Tiny()
	c.Model.Dropout = 0.1
	run, err := newRun(c, device.New(device.Options{}))
	require.NoError(t, err)
	w := &checkpoint.Whole{}
	for _, x := range checkpoint.FileOf(run.Save()).Tensors {
		if !strings.HasPrefix(x.Name, "rng.") {
			w.Tensors = append(w.Tensors, x)
		}
	}
	state := func(step int) checkpoint.Tensor {
		f, anew, err := run.Reshard(step, w)
		require.NoError(t, err)
		require.Equal(t, []string{"dropout.tp"}, anew)
		x, ok := f.Tensor("rng.dropout.tp")
		require.True(t, ok)
		return x
	}
	began, ok := checkpoint.FileOf(run.Save()).Tensor("rng.dropout.tp")
	require.True(t, ok)
	require.False(t, began.Same(state(3)))
	require.False(t, state(4).Same(state(3)))
	require.True(t, state(3).Same(state(3)))
}
