package inject

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Rows that are not written hold what the Call wrote there last, or what they held if it updates them.
func TestUnwrittenRowsAreOld(t *testing.T) {
	s, f := broken(t, "unwritten@y rows=1,3 step=2 micro=0")
	require.Equal(t, []float64{200.5, 111.5, 202.5, 113.5}, s.y[2])
	require.Equal(t, []float64{210.5, 211.5, 212.5, 213.5}, s.y[3])
	require.Equal(t, 1, changes(f))
	s, _ = broken(t, "unwritten@y rows=2- step=1-2")
	require.Equal(t, []float64{100.5, 101.5, 0, 0}, s.y[0])
	require.Equal(t, []float64{210.5, 211.5, 0, 0}, s.y[3])
	require.Equal(t, []float64{300.5, 301.5, 302.5, 303.5}, s.y[4])
	healthy, _ := broken(t, "flip@nothing")
	s, _ = broken(t, "unwritten@sum rows=0 micro=1 step=1 out=sum")
	require.Equal(t, append([]float64{healthy.sum[0][0]}, healthy.sum[1][1:]...), s.sum[1])
	for fault, want := range map[string]string{"unwritten@y rows=4": "rows=4: the output has rows from 0 to 3", "unwritten@y rows=0 out=x": "no output"} {
		_, f := broken(t, fault)
		require.ErrorContains(t, f.Err(), want)
	}
}
