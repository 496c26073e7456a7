package trace

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"firstbit/state"
)

// The sum by its definition, of all elements of a whole.
func TestSumByDefinition(t *testing.T) {
	b := []byte{1, 2, 3, 4, 5, 6}
	var want Sum
	for i := range 3 {
		h := xxh3.Hash128(append(binary.LittleEndian.AppendUint64(nil, uint64(i)), b[2*i:][:2]...))
		want = want.Add(Sum{h.Hi, h.Lo})
	}
	got, ok := SumOf(state.Place{Whole: []int{3}}, 3, b)
	require.True(t, ok)
	require.Equal(t, want, got)
	read, ok := ParseSum(got.String())
	require.True(t, ok)
	require.Equal(t, got, read)
	require.Equal(t, Sum{1, 0}, Sum{0, 1}.Add(Sum{0, ^uint64(0)}))

	for _, text := range []string{"", "12", got.String() + "00", "x" + got.String()[1:]} {
		_, ok := ParseSum(text)
		require.False(t, ok, text)
	}
	_, ok = SumOf(state.Place{Whole: []int{3}}, 4, b) // codes of four bits
	require.False(t, ok)
	_, ok = SumOf(state.Place{Whole: []int{2}}, 3, b)
	require.False(t, ok)
	_, ok = SumOf(state.Place{Whole: []int{3}}, 0, nil)
	require.False(t, ok)
}

// However a tensor is cut, the sums of its pieces add up to that of the whole; of another tensor they do not.
func TestSumsAddUp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	whole := []int{4, 6, 8}
	b := make([]byte, 4*4*6*8)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	of := func(b []byte, places ...state.Place) (sum Sum) {
		for _, p := range places {
			n := 4 * 6 * 8
			for _, c := range p.Cuts {
				n /= c.Parts
			}
			if p.Lo > 0 || len(places) == 3 {
				n /= 3
			}
			var piece []byte
			for i := range n {
				piece = append(piece, b[4*p.Index(i):][:4]...)
			}
			s, ok := SumOf(p, n, piece)
			require.True(t, ok)
			sum = sum.Add(s)
		}
		return sum
	}
	one := of(b, state.Place{Whole: whole})
	at := func(cuts ...state.Cut) state.Place { return state.Place{Whole: whole, Cuts: cuts} }
	for dim := range whole {
		require.Equal(t, one, of(b, at(state.Cut{Dim: dim, Part: 0, Parts: 2}), at(state.Cut{Dim: dim, Part: 1, Parts: 2})))
	}
	third := 4 * 6 * 8 / 3
	require.Equal(t, one, of(b, at(), at().From(third), at().From(2*third)))
	halves := func(b []byte) Sum {
		return of(b, at(state.Cut{Dim: 0, Part: 1, Parts: 2}, state.Cut{Dim: 2, Part: 0, Parts: 4}), at(state.Cut{Dim: 0, Part: 1, Parts: 2}, state.Cut{Dim: 2, Part: 1, Parts: 4}))
	}
	require.Equal(t, halves(b), of(b, at(state.Cut{Dim: 0, Part: 1, Parts: 2}, state.Cut{Dim: 2, Part: 0, Parts: 2})))

	for range 200 {
		i, j := 4*r.IntN(len(b)/4), 4*r.IntN(len(b)/4)
		flipped := append([]byte(nil), b...)
		flipped[i+r.IntN(4)] ^= 1 << r.IntN(8)
		require.NotEqual(t, one, of(flipped, at()))
		if string(b[i:i+4]) != string(b[j:j+4]) {
			swapped := append([]byte(nil), b...)
			copy(swapped[i:], b[j:j+4])
			copy(swapped[j:], b[i:i+4])
			require.NotEqual(t, one, of(swapped, at()))
		}
	}
}
