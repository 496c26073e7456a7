package moe

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel"
	"firstbit/kernel/check"
)

// The epilogue on threads: the same gradients whichever thread takes a tile, and in turn the bits of private slots added in sequence.
func TestRacedDProb(t *testing.T) {
	const rows, f = 300, 70
	r := rand.New(rand.NewPCG(11, 12))
	acc, h, p := check.Random(r, rows*f), check.Random(r, rows*f), check.Random(r, rows)
	til := tiling{M: 16, N: 32, Sub: 8, Grid: 3}
	tiles := til.Tiles([]int32{0, 100, 100, 205, rows}, f)
	til.Dispatch(tiles, nil)
	join := inOrder(til.Cols(f))
	slots := func(threads bool) (dprob, dh []float32) {
		dprob, dh = make([]float32, rows), make([]float32, rows*f)
		var probe func(tile, []float32) // in order, so on one thread
		if !threads {
			probe = func(tile, []float32) {}
		}
		groupedDProb(dprob, dh, acc, h, p, f, til, tiles, inOrder, func(int) kernel.Fold { return join }, probe)
		return dprob, dh
	}
	want, wantDH := slots(false)
	require.GreaterOrEqual(t, len(h), epilogueLeast)
	got, dh := slots(true)
	check.SameBits(t, want, got, "private slots on threads")
	check.SameBits(t, wantDH, dh, "dh on threads")
	turns := func(processors int) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		for range 20 {
			got, dh := make([]float32, rows), make([]float32, rows*f)
			race := dprobRace[float32]{dprob: got, dh: dh, acc: acc, h: h, p: p, cols: f, tiling: til, tiles: tiles, way: kernel.Turns}
			race.run(inOrder)
			check.SameBits(t, want, got, "in turn")
		}
	}
	turns(1) // where threads give way to each other at random
	turns(2)
	for _, dynamic := range []bool{false, true} {
		for _, way := range []kernel.Race{kernel.Atomic, kernel.Turns, kernel.Local, kernel.Steal} {
			got, dh := make([]float32, rows), make([]float32, rows*f)
			race := dprobRace[float32]{dprob: got, dh: dh, acc: acc, h: h, p: p, cols: f, tiling: til, tiles: tiles, dynamic: dynamic, way: way}
			race.run(inOrder)
			check.SameBits(t, wantDH, dh, "dh, %s", way)
			for i, v := range want {
				require.InDelta(t, v, got[i], 1e-4, "row %d, %s", i, way)
			}
		}
	}
}

// A combine on threads adds every slot of a token once.
func TestCombineScatter(t *testing.T) {
	const tokens, k, d = 400, 3, 15
	r := rand.New(rand.NewPCG(13, 14))
	x, inverse := check.Random(r, tokens*k*d), make([]int32, tokens*k)
	for i, at := range r.Perm(tokens * k) {
		inverse[i] = int32(at)
	}
	want := make([]float32, tokens*d)
	combineSlots(want, x, inverse, k, d, inOrder(k))
	for _, way := range []kernel.Race{kernel.Atomic, kernel.Turns, kernel.Local, kernel.Steal} {
		got := make([]float32, tokens*d)
		combineScatter(got, x, inverse, k, d, way)
		for i, v := range want {
			require.InDelta(t, v, got[i], 1e-5, "element %d, %s", i, way)
		}
	}
}
