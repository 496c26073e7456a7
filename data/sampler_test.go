package data

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/rng"
)

// counting is the corpus 0, 1, 2, …, so that a token tells where it came from.
func counting(n int) *Corpus {
	c := &Corpus{Name: "counting", Tokens: make([]uint16, n), Vocab: n}
	for i := range c.Tokens {
		c.Tokens[i] = uint16(i)
	}
	return c
}

func newSampler(t testing.TB, n, width int, seed uint64) *Sampler {
	s, err := NewSampler(counting(n), width, seed, Documents{})
	require.NoError(t, err)
	return s
}

func deal(s *Sampler, samples int) []int32 {
	tokens, targets := make([]int32, samples*s.t), make([]int32, samples*s.t)
	s.Next(tokens, targets, nil)
	return tokens
}

// Sample i of epoch e is window perm_e[i], perm_e drawn from the stream (seed, "data", e).
func TestSamplerIsItsDefinition(t *testing.T) {
	const width, seed = 4, 7
	for n := width + 1; n <= 45; n++ { // 45 leaves no rest, 44 leaves 3 tokens
		s, windows := newSampler(t, n, width, seed), (n-1)/width
		for epoch := range uint64(3) {
			for _, w := range rng.New(seed, "data", epoch).Perm(windows) {
				tokens, targets := make([]int32, width), make([]int32, width)
				s.Next(tokens, targets, nil)
				for i := range int32(width) {
					require.Equal(t, int32(width*w)+i, tokens[i])
					require.Equal(t, tokens[i]+1, targets[i])
				}
			}
		}
		require.EqualValues(t, 3*windows, s.Consumed)
	}
}

func TestEveryTokenIsATargetOnceAnEpoch(t *testing.T) {
	s := newSampler(t, 41, 4, 7)
	for range 2 {
		tokens, targets, seen := make([]int32, 40), make([]int32, 40), make([]int, 41)
		s.Next(tokens, targets, nil)
		for _, v := range targets {
			seen[v]++
		}
		for v, times := range seen[1:] {
			require.Equal(t, 1, times, "token %d", v+1)
		}
	}
}

// However samples are cut into batches, wherever a run resumes, they are the same.
func TestConsumedIsTheWholeState(t *testing.T) {
	const samples = 25 // two and a half epochs
	whole := deal(newSampler(t, 41, 4, 7), samples)
	for at := range samples {
		r := newSampler(t, 41, 4, 7)
		r.Consumed = int64(at)
		require.Equal(t, whole[4*at:], deal(r, samples-at))

		// A sampler in use may be set back as well.
		r.Consumed = int64(at)
		require.Equal(t, whole[4*at:], deal(r, samples-at))
	}
}

// The negative control of both tests above: order does depend on seed and epoch.
func TestOrderDependsOnSeedAndEpoch(t *testing.T) {
	s := newSampler(t, 401, 4, 7)
	first, second := deal(s, 100), deal(s, 100)
	require.NotEqual(t, first, second)
	require.ElementsMatch(t, first, second)
	require.NotEqual(t, first, deal(newSampler(t, 401, 4, 8), 100))
}

func TestSamplerRefuses(t *testing.T) {
	_, err := NewSampler(counting(4), 4, 1, Documents{})
	require.EqualError(t, err, "data counting: 4 tokens: must be at least seq+1 (5)")
	s := newSampler(t, 5, 4, 1)
	require.Equal(t, []int32{0, 1, 2, 3, 0, 1, 2, 3}, deal(s, 2), "one window, every epoch")

	require.EqualError(t, s.Keep(2), "data counting: 1 samples of 4 tokens: must be at least samples (2)")
	two := newSampler(t, 401, 4, 1)
	require.NoError(t, two.Keep(2))
	require.ElementsMatch(t, []int32{0, 1, 2, 3, 4, 5, 6, 7}, deal(two, 2), "the first of the data")

	require.Panics(t, func() { _, _ = NewSampler(counting(4), 0, 1, Documents{}) })
	require.Panics(t, func() { s.Next(make([]int32, 3), make([]int32, 3), nil) })
	require.Panics(t, func() { s.Next(make([]int32, 4), make([]int32, 8), nil) })
	s.Consumed = -1
	require.Panics(t, func() { deal(s, 1) })
}

func TestNextAllocatesAtAnEpochsStartOnly(t *testing.T) {
	s := newSampler(t, 4001, 4, 7) // 1000 windows
	tokens, targets := make([]int32, 4), make([]int32, 4)
	s.Next(tokens, targets, nil)
	require.Zero(t, testing.AllocsPerRun(100, func() { s.Next(tokens, targets, nil) }))
	require.NotZero(t, testing.AllocsPerRun(10, func() { s.Consumed += 1000; s.Next(tokens, targets, nil) }))
}

func BenchmarkNext(b *testing.B) {
	s, err := NewSampler(Embedded(), 64, 1, Documents{})
	require.NoError(b, err)
	tokens, targets := make([]int32, 8*64), make([]int32, 8*64)
	for b.Loop() {
		s.Next(tokens, targets, nil)
	}
}
