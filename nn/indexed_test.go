package nn

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/rng"
)

// indexedMask draws a mask by its rows in a scope at a step.
func indexedMask(make func(*Stream, float64) *Mask, rate float64, r Rows, scope string, step, rows, cols int) []float64 {
	d, m, x := device.New(device.Options{}), make(nil, rate), device.NewTensor(lowp.FP32, rows, cols)
	m.Rows = &r
	for i := range x.Len() {
		x.Set(i, 1)
	}
	d.At(step, 0, device.Fwd)
	y := m.Forward(d.In(scope), x)
	values := make64(y)
	d.At(step, 0, device.Rec)
	if again := make64(m.Forward(d.In(scope), x)); !slices.Equal(values, again) {
		panic("a recomputation draws another mask")
	}
	return values
}

func make64(t *device.Tensor) []float64 {
	v := make([]float64, t.Len())
	for i := range v {
		v[i] = t.Value(i)
	}
	return v
}

// A row's draws are those of the stream that its key names.
func TestIndexedKey(t *testing.T) {
	const seed = 0xfedcba9876543210
	r := Rows{Seed: seed, Sample: 1<<40 + 6, Token: 8, Tokens: 4, First: 2}
	mask := indexedMask(Jitter, 0.5, r, "layers.3", 17, 5, 3)
	for i, at := range [][2]uint64{{6, 10}, {6, 11}, {7, 8}, {7, 9}, {7, 10}} {
		s := rng.New(seed, "jitter", rng.HashString("layers.3"), 17, 1<<40+at[0], at[1])
		for j := range 3 {
			require.Equal(t, float64(float32(jitter(s.Float64(), 0.5))), mask[3*i+j], "row %d", i)
		}
	}
}

// The mask of a batch is the same however its rows are cut: by sequences, by positions, in runs.
func TestIndexedMasksDoNotDependOnTheCut(t *testing.T) {
	const samples, tokens, cols = 4, 8, 3
	draw := func(r Rows, rows int) []float64 {
		r.Seed = 5
		return indexedMask(Dropout, 0.5, r, "layers.0", 2, rows, cols)
	}
	whole := draw(Rows{Tokens: tokens}, samples*tokens)
	var batches, runs []float64
	for s := range samples / 2 {
		batches = append(batches, draw(Rows{Sample: int64(2 * s), Tokens: tokens}, 2*tokens)...)
	}
	require.Equal(t, whole, batches)
	for i := range 8 {
		runs = append(runs, draw(Rows{Tokens: tokens, First: 4 * i}, 4)...)
	}
	require.Equal(t, whole, runs)
	for cp := range 2 {
		part := draw(Rows{Token: 4 * cp, Tokens: 4}, samples*4)
		for s := range samples {
			require.Equal(t, whole[(s*tokens+4*cp)*cols:][:4*cols], part[s*4*cols:][:4*cols])
		}
	}
	// Negative control: as if each part began with its sequence.
	require.NotEqual(t, whole[4*cols:8*cols], draw(Rows{Tokens: 4}, samples*4)[:4*cols])
}

// correlation is that of two lists of one length, in deviations of what independent ones have.
func correlation(a, b []float64) float64 {
	n := float64(len(a))
	var ma, mb, ab, aa, bb float64
	for i := range a {
		ma, mb = ma+a[i]/n, mb+b[i]/n
	}
	for i := range a {
		x, y := a[i]-ma, b[i]-mb
		ab, aa, bb = ab+float64(x*y), aa+float64(x*x), bb+float64(y*y)
	}
	return ab / math.Sqrt(float64(aa*bb)) * math.Sqrt(n)
}

// Masks that differ in one part of their key are uncorrelated, element by element and shifted; the rate is right.
func TestIndexedMasksAreIndependent(t *testing.T) {
	const rate, rows, cols, least = 0.25, 128, 64, 6
	base := Rows{Seed: 1, Sample: 10, Tokens: rows}
	draw := func(r Rows, scope string, step int) []float64 {
		return indexedMask(Dropout, rate, r, scope, step, rows, cols)
	}
	with := func(change func(*Rows)) Rows { r := base; change(&r); return r }
	one := draw(base, "layers.1", 3)
	dropped := 0
	for _, v := range one {
		if v == 0 {
			dropped++
		} else {
			require.Equal(t, float64(float32(1/(1-rate))), v)
		}
	}
	n := float64(len(one))
	require.InDelta(t, rate*n, float64(dropped), least*math.Sqrt(n*rate*(1-rate)))
	for name, other := range map[string][]float64{
		"seed":   draw(with(func(r *Rows) { r.Seed = 2 }), "layers.1", 3),
		"high":   draw(with(func(r *Rows) { r.Seed |= 1 << 63 }), "layers.1", 3),
		"step":   draw(base, "layers.1", 4),
		"layer":  draw(base, "layers.2", 3),
		"depth":  draw(base, "mtp.0.layers.1", 3),
		"sample": draw(with(func(r *Rows) { r.Sample = 11 }), "layers.1", 3),
		"token":  draw(with(func(r *Rows) { r.Token = rows }), "layers.1", 3),
		"stream": indexedMask(Jitter, rate, base, "layers.1", 3, rows, cols),
		"swap":   draw(with(func(r *Rows) { r.Sample = 3 }), "layers.1", 10),
	} {
		require.Less(t, math.Abs(correlation(one, other)), float64(least), name)
		for _, lag := range []int{1, cols, 2 * cols} {
			require.Less(t, math.Abs(correlation(one[lag:], other[:len(other)-lag])), float64(least), "%s, shifted by %d", name, lag)
		}
	}
	for lag := 1; lag <= 5*cols; lag++ { // columns of a token, and tokens that follow one another
		require.Less(t, math.Abs(correlation(one[lag:], one[:len(one)-lag])), float64(least), "shifted by %d", lag)
	}
	// Negative controls: a key without the token, as if each token were the first of its sequence, repeats its mask; and a mask is itself.
	var blind []float64
	for range rows {
		blind = append(blind, indexedMask(Dropout, rate, with(func(r *Rows) { r.Tokens = 1 }), "layers.1", 3, 1, cols)...)
	}
	require.Greater(t, correlation(blind[cols:], blind[:len(blind)-cols]), float64(least))
	require.Greater(t, correlation(one, draw(base, "layers.1", 3)), float64(least))
}

// A trace shows all that an indexed mask depends on, and that it depends on no tensor.
func TestIndexedDrawsAreCalls(t *testing.T) {
	r := Rows{Seed: 1<<40 + 7, Sample: 3, Token: 8, Tokens: 4, First: 2}
	var scalars []device.Scalar
	d := device.New(device.Options{}, func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			if c.Kind == device.Draw {
				require.Equal(t, "layers.0.dropout.mask", c.ID.Path)
				require.Empty(t, c.In)
				require.Len(t, c.Out, 1)
				scalars = slices.Clone(c.Scalars)
			}
			next(c)
		}
	})
	m := Dropout(nil, 0.5)
	m.Rows = &r
	d.At(9, 0, device.Fwd)
	m.Forward(d.In("layers.0"), device.NewTensor(lowp.BF16, 2, 2))
	require.Equal(t, []device.Scalar{{Name: "rate", Value: 0.5}, {Name: "seed.high", Value: 256}, {Name: "seed.low", Value: 7}, {Name: "step", Value: 9}, {Name: "sample", Value: 3}, {Name: "token", Value: 8}, {Name: "tokens", Value: 4},
		{Name: "first", Value: 2}}, scalars)
}
