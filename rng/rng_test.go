package rng

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHashes(t *testing.T) {
	// FNV-1a 64 of "", "a" and "foobar" (Fowler, Noll, Vo, test vectors of the draft RFC).
	require.Equal(t, uint64(0xcbf29ce484222325), HashString(""))
	require.Equal(t, uint64(0xaf63dc4c8601ec8c), HashString("a"))
	require.Equal(t, uint64(0x85944171f73967e8), HashString("foobar"))
	// Of one word, Mix is splitmix64's first output for that seed (Vigna's splitmix64.c).
	require.Equal(t, uint64(0xe220a8397b1dcdaf), Mix(0))
	require.Equal(t, uint64(6457827717110365317), Mix(1234567))
	require.Zero(t, Mix())
	require.NotEqual(t, Mix(1, 2), Mix(2, 1))
	require.NotEqual(t, Mix(0), Mix(0, 0))
}

// pcg is PCG XSL RR 128/64 as its author defines it (O'Neill 2014, §6.3), in big integers.
type pcg struct{ state *big.Int }

func (p pcg) next() uint64 {
	multiplier, _ := new(big.Int).SetString("47026247687942121848144207491837523525", 10)
	increment, _ := new(big.Int).SetString("117397592171526113268558934119004209487", 10)
	p.state.Mul(p.state, multiplier).Add(p.state, increment)
	p.state.Mod(p.state, new(big.Int).Lsh(big.NewInt(1), 128))
	high := new(big.Int).Rsh(p.state, 64).Uint64()
	low := new(big.Int).And(p.state, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	x, turn := high^low, high>>58
	return x>>turn | x<<(64-turn)
}

func TestSourceIsPCG(t *testing.T) {
	s := New(7, "known", 1, 2)
	state, err := s.MarshalBinary()
	require.NoError(t, err)
	h := HashString("known")
	require.Equal(t, Mix(7, h, 1, 2), binary.BigEndian.Uint64(state), "the state is the documented hash")
	require.Equal(t, Mix(7, h, 1, 2, 1), binary.BigEndian.Uint64(state[8:]))
	p := pcg{new(big.Int).SetBytes(state)}
	for range 1000 {
		require.Equal(t, p.next(), s.Uint64())
	}
	after, err := s.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, hex.EncodeToString(p.state.FillBytes(make([]byte, 16))), hex.EncodeToString(after))
}

// The bits every architecture must produce.
func TestGoldenDraws(t *testing.T) {
	s := New(1, "init")
	h := Mix(s.Uint64())
	for range 1000 {
		h = Mix(h, s.Uint64(), math.Float64bits(s.Float64()), math.Float64bits(s.Norm()), uint64(s.Intn(1000)))
	}
	require.Equal(t, uint64(0x4429af558b91509f), h)
	require.Equal(t, []int{6, 1, 4, 5, 0, 2, 3, 7}, New(1, "perm").Perm(8))
}

func TestStateIsSixteenBytesAndContinues(t *testing.T) {
	s := New(1, "init")
	for range 5 {
		s.Norm()
	}
	state, err := s.MarshalBinary()
	require.NoError(t, err)
	require.Len(t, state, 16)
	draws := func(s *Stream) []float64 {
		d := []float64{s.Norm(), s.Float64(), s.Norm(), float64(s.Intn(7))}
		for _, i := range s.Perm(9) {
			d = append(d, float64(i))
		}
		return append(d, s.Norm())
	}
	want := draws(s)
	r := New(9, "another")
	require.NotEqual(t, want, draws(New(9, "another")), "negative control")
	require.NoError(t, r.UnmarshalBinary(state))
	require.Equal(t, want, draws(r))
	require.Equal(t, "another", r.Name())
	for _, n := range []int{0, 15, 17} {
		require.ErrorContains(t, r.UnmarshalBinary(make([]byte, n)), `state of stream "another"`)
	}
	require.Equal(t, s.Uint64(), r.Uint64(), "a refused state changes nothing")
}

func TestStreamsAreTheirNames(t *testing.T) {
	first := map[uint64]int{}
	n := 0
	for seed := range uint64(4) {
		for _, name := range []string{"", "init", "data", "dropout.tp", "jitter.ep", "sr"} {
			first[New(seed, name).Uint64()]++
			n++
			for i := range uint64(50) {
				first[New(seed, name, i).Uint64()]++
				first[New(seed, name, i, 0).Uint64()]++
				first[New(seed, name, 0, 0, i).Uint64()]++
				n += 3
			}
		}
	}
	require.Len(t, first, n, "no two of them begin alike")
	require.Equal(t, New(1, "init", 3).Uint64(), New(1, "init", 3).Uint64(), "and each is a function of its key")
}

// Bits of streams that differ by one in an index agree half of the time, at every lag tried.
func TestNeighbouringStreamsAreIndependent(t *testing.T) {
	agree := func(a, b *Stream) (n int) {
		for range 1000 {
			for x := ^(a.Uint64() ^ b.Uint64()); x != 0; x &= x - 1 {
				n++
			}
		}
		return n
	}
	for i := range uint64(50) {
		lagged := New(1, "x", i+1)
		for range i {
			lagged.Uint64()
		}
		require.InDelta(t, 32000, agree(New(1, "x", i), lagged), 6*126.5, "six deviations, at %d", i)
	}
	require.Equal(t, 64000, agree(New(1, "x"), New(1, "x")), "negative control")
}

// Seek takes a stream, wherever it is, to where another begins.
func TestSeekIsNew(t *testing.T) {
	s := New(1, "dropout")
	for i := range uint64(20) {
		for _, index := range [][]uint64{nil, {i}, {3, i, 1, 2}} {
			s.Seek(i, index...)
			want := New(i, "dropout", index...)
			for range 5 {
				require.Equal(t, want.Uint64(), s.Uint64())
			}
		}
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { s.Seek(1, 2, 3, 4) }))
}
