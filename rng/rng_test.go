package rng

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHashes(t *testing.T) {
	// FNV-1a 64 of "" and "a" (Fowler, Noll, Vo); splitmix64's first output for seed 0.
	require.Equal(t, uint64(0xcbf29ce484222325), HashString(""))
	require.Equal(t, uint64(0xaf63dc4c8601ec8c), HashString("a"))
	require.Equal(t, uint64(0xe220a8397b1dcdaf), Mix(0))
}

func TestStateIsSixteenBytesAndContinues(t *testing.T) {
	s := New(1, "init")
	for range 5 {
		s.Norm()
	}
	state, err := s.MarshalBinary()
	require.NoError(t, err)
	require.Len(t, state, 16)
	want := []float64{s.Norm(), s.Float64(), s.Norm()}
	r := New(9, "another")
	require.NoError(t, r.UnmarshalBinary(state))
	require.Equal(t, want, []float64{r.Norm(), r.Float64(), r.Norm()})
	require.Error(t, r.UnmarshalBinary(state[:3]))
}

func TestStreamsAreTheirNames(t *testing.T) {
	a, b := New(1, "init").Uint64(), New(1, "data").Uint64()
	require.NotEqual(t, a, b)
	require.NotEqual(t, a, New(2, "init").Uint64())
	require.NotEqual(t, a, New(1, "init", 0).Uint64())
	require.NotEqual(t, New(1, "x", 1, 2).Uint64(), New(1, "x", 2, 1).Uint64())
	require.Equal(t, a, New(1, "init").Uint64())
}

func TestMoments(t *testing.T) {
	s := New(3, "moments")
	const n = 200000
	var m, v, k float64
	for range n {
		x := s.Norm()
		m += x / n
		v += x * x / n
		k += x * x * x * x / n
	}
	require.InDelta(t, 0, m, 0.01)
	require.InDelta(t, 1, v, 0.02)
	require.InDelta(t, 3, k, 0.1)
}

func TestPermIsAPermutation(t *testing.T) {
	seen := make([]bool, 100)
	for _, i := range New(1, "p").Perm(100) {
		require.False(t, seen[i])
		seen[i] = true
	}
	require.Panics(t, func() { New(1, "p").Intn(0) })
	require.False(t, math.IsNaN(New(1, "q").Norm()))
}
