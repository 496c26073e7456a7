package train

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/parallel"
)

func TestCheckMemory(t *testing.T) {
	c := Pico()
	require.NoError(t, c.CheckMemory(parallel.Layout{DP: 2432}, 5<<29), "2,432 ranks run in 2.5 GiB")
	require.NoError(t, c.CheckMemory(parallel.Layout{}, 2<<20))
	require.EqualError(t, c.CheckMemory(parallel.Layout{DP: 16384}, 4<<30),
		`layout "dp=16384": needs about 12.2 GiB of memory for 16384 ranks, and 4.0 GiB are available; the nearest layout that fits: "dp=6736"`)
	require.ErrorContains(t, c.CheckMemory(parallel.Layout{DP: 2, TP: 2}, 1<<20), "1 MiB are available; no layout with fewer ranks fits")
	// The nearest may have less of another axis.
	require.ErrorContains(t, Tiny().CheckMemory(parallel.Layout{DP: 4, TP: 2, EP: 8}, 18<<20), `the nearest layout that fits: "dp=2,tp=2,ep=4"`)
}
