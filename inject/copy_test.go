package inject

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An output is the one of an earlier step, of the same microbatch.
func TestCopyOfAnEarlierStep(t *testing.T) {
	healthy, _ := broken(t, "flip@nothing")
	s, f := broken(t, "copy@y from-step=1 step=3")
	require.Equal(t, healthy.y[:4], s.y[:4])
	require.Equal(t, healthy.y[:2], s.y[4:])
	require.Equal(t, 2, changes(f))
	s, f = broken(t, "copy@y from-step=2 out=y micro=1")
	require.Equal(t, healthy.y[3], s.y[5])
	require.Equal(t, healthy.y[4], s.y[4])
	require.Equal(t, 1, changes(f))
	s, f = broken(t, "copy@y from-step=3")
	require.Equal(t, healthy, s)
	require.Zero(t, changes(f))
	_, f = broken(t, "copy@y from-step=1 out=z")
	require.ErrorContains(t, f.Err(), "no output")
}
