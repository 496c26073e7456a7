package state

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// places are small pieces of every kind: no cut, one, several, two of one dimension, and beginning inside of a part.
func places() (all []Place) {
	cuts := [][]Cut{nil, {{0, 1, 2}}, {{1, 0, 2}}, {{2, 2, 3}}, {{0, 1, 2}, {2, 1, 3}}, {{0, 1, 2}, {0, 0, 2}}, {{2, 1, 3}, {2, 1, 2}},
		{{2, 1, 2}, {1, 1, 2}, {2, 2, 3}}}
	for _, c := range cuts {
		for _, lo := range []int{0, 1, 3} {
			all = append(all, Place{Whole: []int{4, 2, 6}, Cuts: c, Lo: lo})
		}
	}
	return append(all, Place{Stream: "x"})
}

// naive are the elements of a part in the whole, by cutting a tensor of the numbers of its elements.
func naive(p Place) []int {
	kept := make([]int, p.Elements())
	for i := range kept {
		kept[i] = i
	}
	strides, extent := make([]int, len(p.Whole)), append([]int{}, p.Whole...)
	for d, n := len(p.Whole)-1, 1; d >= 0; d-- {
		strides[d], n = n, n*p.Whole[d]
	}
	first := make([]int, len(p.Whole))
	for _, c := range p.Cuts {
		extent[c.Dim] /= c.Parts
		first[c.Dim] += c.Part * extent[c.Dim]
		left := kept[:0]
		for _, i := range kept {
			if x := i/strides[c.Dim]%p.Whole[c.Dim] - first[c.Dim]; x >= 0 && x < extent[c.Dim] {
				left = append(left, i)
			}
		}
		kept = left
	}
	return kept[p.Lo:]
}

func TestPlaces(t *testing.T) {
	for _, p := range places() {
		if p.Stream != "" {
			require.Equal(t, 3, p.Index(3))
			continue
		}
		want := naive(p)
		require.Len(t, want, product(p.Part())-p.Lo, p)
		n := len(want)
		at := map[int]int{}
		for i, to := range want {
			require.Equal(t, to, p.Index(i), p)
			at[to] = i
		}
		for to := range p.Elements() {
			i, ok := p.Find(to, n)
			want, has := at[to]
			require.Equal(t, has, ok, "%+v %d", p, to)
			if ok {
				require.Equal(t, want, i)
			}
		}
		_, ok := p.Find(want[n-1], n-1)
		require.False(t, ok, "a shorter piece")
		next := 0
		require.NoError(t, p.Runs(n, func(from, to, n int) {
			require.Equal(t, next, from)
			for i := range n {
				require.Equal(t, want[from+i], to+i)
			}
			next += n
		}))
		require.Equal(t, n, next)
	}
}

func TestPlacesThatCannotBe(t *testing.T) {
	for _, p := range []Place{{Whole: []int{0}}, {Whole: []int{4}, Cuts: []Cut{{0, 0, 3}}}, {Whole: []int{4}, Cuts: []Cut{{1, 0, 2}}},
		{Whole: []int{4}, Cuts: []Cut{{0, 2, 2}}}, {Whole: []int{4}, Cuts: []Cut{{0, 0, 2}, {0, 0, 4}}}, {Whole: []int{1 << 20, 1 << 20}}} {
		require.Error(t, p.Check(), fmt.Sprint(p))
		require.Error(t, p.Runs(1, nil))
	}
	require.Error(t, Place{Whole: []int{4}, Lo: 2}.Runs(3, nil))
	require.Error(t, Place{Whole: []int{4}, Lo: -1}.Runs(3, nil))
}

// Whatever a manifest says, no element lies outside the whole.
func FuzzPlace(f *testing.F) {
	f.Add([]byte(`{"whole":[4,2,6],"cuts":[{"dim":0,"part":1,"parts":2},{"dim":2,"part":2,"parts":3}],"lo":3}`), 5)
	f.Add([]byte(`{"stream":"x"}`), 1)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		var p Place
		if json.Unmarshal(b, &p) != nil || n < 0 || n > 1<<12 {
			return
		}
		got := 0
		err := p.Runs(n, func(from, to, length int) {
			require.Equal(t, got, from)
			require.True(t, to >= 0 && to+length <= p.Elements())
			got += length
		})
		require.True(t, err != nil || got == n)
		_ = p.String()
	})
}
