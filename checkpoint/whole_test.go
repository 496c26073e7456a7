package checkpoint

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/state"
)

// cutUp has the first rows·cols numbers as every rank of a layout saves them: two parts of the columns, each in two segments of unequal
// length, and on every rank a stream and a number.
func cutUp(t *testing.T, edit func(rank int, tensors []Tensor) []Tensor) *Checkpoint {
	t.Helper()
	const rows, cols = 3, 4
	s, err := NewSaver(t.TempDir(), 0, 4, 0, Manifest{Layout: "dp=2,tp=2", Config: []byte(`{}`)})
	require.NoError(t, err)
	for rank := range 4 {
		tp, dp := rank%2, rank/2
		lo, n := []int{0, 4}[dp], []int{4, 2}[dp]
		p := nn.NewPart("w", lowp.FP32, true, []int{rows, cols}, state.Cut{Dim: 1, Part: tp, Parts: 2})
		part := device.NewTensor(lowp.FP32, n)
		for i := range n {
			part.Set(i, float64(p.Place.From(lo).Index(i)))
		}
		stream, step := device.NewTensor(lowp.INT32, 4), device.NewTensor(lowp.INT32, 2)
		stream.Set(0, float64(tp))
		step.Set(0, 7)
		tensors := []Tensor{
			Of("w.m", part).At(state.Place{Whole: []int{rows, cols}, Cuts: []state.Cut{{Dim: 1, Part: tp, Parts: 2}}, Lo: lo}),
			Of("rng.x", stream).At(state.Place{Stream: []string{"x", "x.tp1"}[tp]}),
			Of("step", step).At(state.Place{Whole: []int{2}}),
		}
		if edit != nil {
			tensors = edit(rank, tensors)
		}
		require.NoError(t, s.Put(rank, 1, tensors))
	}
	c, err := Read(filepath.Join(s.Dir, "step000001"))
	require.NoError(t, err)
	return c
}

func TestAssemble(t *testing.T) {
	w, err := cutUp(t, nil).Assemble()
	require.NoError(t, err)
	require.Len(t, w.Tensors, 2)
	x, err := w.Tensors[1].Values()
	require.NoError(t, err)
	require.Equal(t, []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, x)
	require.Len(t, w.Streams, 2)
	s, ok := w.Stream("x.tp1")
	require.True(t, ok)
	x, err = s.Values()
	require.NoError(t, err)
	require.Equal(t, []float64{1, 0, 0, 0}, x)

	// Cut for other ranks: four parts of the columns, three of the rows, and from an element on.
	for _, c := range []struct {
		p     state.Place
		shape []int
		want  []float64
	}{
		{state.Place{}, []int{3, 4}, []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		{state.Place{Cuts: []state.Cut{{Dim: 1, Part: 3, Parts: 4}}}, []int{3, 1}, []float64{3, 7, 11}},
		{state.Place{Cuts: []state.Cut{{Dim: 0, Part: 1, Parts: 3}}}, []int{4}, []float64{4, 5, 6, 7}},
		{state.Place{Cuts: []state.Cut{{Dim: 0, Part: 2, Parts: 3}, {Dim: 1, Part: 1, Parts: 2}}, Lo: 1}, []int{1}, []float64{11}},
		{state.Place{Cuts: []state.Cut{{Dim: 1, Part: 0, Parts: 2}}, Lo: 1}, []int{4}, []float64{1, 4, 5, 8}},
	} {
		c.p.Whole = []int{3, 4}
		part, err := w.Part("w.m", c.p, c.shape)
		require.NoError(t, err)
		x, err := part.Values()
		require.NoError(t, err)
		require.Equal(t, c.want, x, "%+v", c.p)
	}
	for _, p := range []state.Place{{Whole: []int{4, 3}}, {Whole: []int{3, 4}, Lo: 1}, {Whole: []int{3, 4}, Cuts: []state.Cut{{Dim: 0, Part: 0, Parts: 2}}},
		{Whole: []int{3, 4}, Cuts: []state.Cut{{Dim: 2, Part: 0, Parts: 2}}}, {Whole: []int{3, 4}, Lo: -1}} {
		_, err := w.Part("w.m", p, []int{3, 4})
		require.ErrorContains(t, err, `tensor "w.m"`, "%+v", p)
	}
	_, err = w.Part("w.v", state.Place{Whole: []int{1}}, []int{1})
	require.EqualError(t, err, `tensor "w.v": is missing`)
}

func TestAssembleRefuses(t *testing.T) {
	for _, c := range []struct {
		want string
		edit func(rank int, tensors []Tensor) []Tensor
	}{
		{`tensor "step": rank00000.safetensors and rank00003.safetensors hold other bits`, func(rank int, x []Tensor) []Tensor {
			if rank == 3 {
				other := device.NewTensor(lowp.INT32, 2)
				x[2] = Of("step", other).At(*x[2].place)
			}
			return x
		}},
		{`tensor "rng.x": rank00001.safetensors and rank00003.safetensors hold other bits`, nil},
		{`tensor "w.m" of rank00000.safetensors: shape [3 4]: has 12 elements, and the ranks' files together 10`, func(rank int, x []Tensor) []Tensor {
			if rank == 3 {
				return x[1:]
			}
			return x
		}},
		{`tensor "w.m": no rank's file has element 10`, func(rank int, x []Tensor) []Tensor {
			if rank == 3 { // what rank 1 has
				again, p := device.NewTensor(lowp.FP32, 4), *x[0].place
				for i, v := range []float64{2, 3, 6, 7} {
					again.Set(i, v)
				}
				p.Lo = 0
				x[0] = Of("w.m", again).At(p)
			}
			return x
		}},
		{"does not say where its tensors lie, so it continues on its own layout only", func(rank int, x []Tensor) []Tensor {
			x[0].place = nil
			return x
		}},
		{`tensor "w.m" of rank00002.safetensors: is F32 of [4 3]: another rank's is F32 of [3 4]`, func(rank int, x []Tensor) []Tensor {
			if rank == 2 {
				x[0] = x[0].At(state.Place{Whole: []int{4, 3}})
			}
			return x
		}},
		{`tensor "w.m" of rank00000.safetensors: shape [2147483647]: has 2147483647 elements, and the ranks' files together 12`, func(_ int, x []Tensor) []Tensor {
			x[0] = x[0].At(state.Place{Whole: []int{2147483647}}) // 17 GB, of a file of a few bytes
			return x
		}},
		{`tensor "w.m" of rank00000.safetensors: shape [2147483647 2]: must have from 1 to`, func(_ int, x []Tensor) []Tensor {
			x[0] = x[0].At(state.Place{Whole: []int{2147483647, 2}})
			return x
		}},
	} {
		if c.edit == nil {
			c.edit = func(rank int, x []Tensor) []Tensor {
				if rank == 3 {
					x[1] = Of("rng.x", device.NewTensor(lowp.INT32, 4)).At(*x[1].place)
				}
				return x
			}
		}
		_, err := cutUp(t, c.edit).Assemble()
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
	}
}
