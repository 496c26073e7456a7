package inject

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// A value is written over the elements that are selected, and no others.
func TestSetWritesAValue(t *testing.T) {
	healthy, _ := broken(t, "flip@nothing")
	for fault, want := range map[string][]float64{
		"set@y value=7 step=2 micro=1":                            {7, 211.5, 212.5, 213.5},
		"set@y value=-inf elem=3 step=2 micro=1":                  {210.5, 211.5, 212.5, math.Inf(-1)},
		"set@y value=1e-3 count=2 stride=3 step=2 micro=1":        {float64(float32(1e-3)), 211.5, 212.5, float64(float32(1e-3))},
		"set@y value=2 row=2 step=2 micro=1 phase=fwd out=y":      {210.5, 211.5, 2, 213.5},
		"set@y value=2 elem=1 count=3 step=2 micro=1 at=rest":     {210.5, 2, 2, 2},
		"set@y value=211.5 elem=1 step=2 micro=1 rank=0 tp=0":     {210.5, 211.5, 212.5, 213.5},
		"set@y value=nan elem=1 count=1 step=2 micro=1 phase=fwd": {210.5, math.NaN(), 212.5, 213.5},
	} {
		s, f := broken(t, fault)
		for j := range want {
			require.True(t, want[j] == s.y[3][j] || want[j] != want[j] && s.y[3][j] != s.y[3][j], "%s: %v", fault, s.y[3])
		}
		require.Equal(t, healthy.y[4:], s.y[4:], fault)
		acted, changed := f.Counts()
		require.Equal(t, 1, acted, fault)
		require.Equal(t, changed == 0, want[1] == 211.5 && want[0] == 210.5 && want[2] == 212.5 && want[3] == 213.5, fault)
	}
	for fault, want := range map[string]string{"set@y value=1 out=z": `no output "z": must be y`, "set@y value=1 elem=4": "the output has 4 elements", "set@late value=1": "has no output"} {
		_, f := broken(t, fault)
		require.ErrorContains(t, f.Err(), want)
	}
}
