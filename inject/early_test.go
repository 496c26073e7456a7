package inject

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A reader that is early reads, in parts, what the memory held before, and leaves the memory as it was.
func TestEarlyReadsWhatWasThereBefore(t *testing.T) {
	healthy, _ := broken(t, "flip@nothing")
	s, f := broken(t, "early@y step=2 micro=1")
	require.Equal(t, healthy.x, s.x, "the memory is right again")
	old, is := 0, 0
	for j, y := range s.y[3] {
		switch y {
		case healthy.y[3][j]:
			is++
		case healthy.y[2][j]:
			old++
		}
	}
	require.Equal(t, 4, old+is, "%v", s.y[3])
	require.Positive(t, old)
	require.Equal(t, 1, changes(f))
	again, _ := broken(t, "early@y step=2 micro=1")
	require.Equal(t, s, again)

	s, _ = broken(t, "early@y in=x step=1 micro=0")
	require.Contains(t, s.y[0], 0.5, "zero before the first write")
	s, f = broken(t, "early@sum in=sum micro=1 step=3") // before the last update, which is lost in parts
	require.Positive(t, changes(f))
	lost := 0
	for j := range 4 {
		if s.sum[5][j] == healthy.sum[5][j]-healthy.y[4][j] {
			lost++
		} else {
			require.Equal(t, healthy.sum[5][j], s.sum[5][j])
		}
	}
	require.Positive(t, lost)
	for fault, want := range map[string]string{"early@y in=z": `has no input "z": must be x`, "early@x": "reads nothing"} {
		_, f := broken(t, fault)
		require.ErrorContains(t, f.Err(), want)
	}
}
