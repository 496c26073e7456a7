package inject

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/checkpoint"
	"firstbit/device"
	"firstbit/parallel"
	"firstbit/quant"
	"firstbit/train"
)

// Copies made of what copies stood for have other scales, and codes, in a few of a hundred blocks, and the same values: no product
// ever shows it. Made of weights in bf16 they have other values.
func TestCopiesOfCopies(t *testing.T) {
	c := train.Small()
	c.Precision = "mxfp8"
	twoSteps := func() *train.Trainer {
		tr := newRun(t, c)
		tr.Step()
		tr.Step()
		return tr
	}
	saved := checkpoint.FileOf(twoSteps().Save())
	next := twoSteps().Step().Metrics
	restored := func(faults ...string) (*train.Trainer, Injector) {
		var i Injector
		for _, text := range faults {
			f, err := Parse(text)
			require.NoError(t, err)
			i.Faults = append(i.Faults, f)
		}
		r := newRun(t, c, i.Middleware)
		require.NoError(t, r.Restore(2, saved))
		return r, i
	}
	want, _ := restored()
	for source, most := range map[string]float64{dequantised: 0.05, rounded: 1} {
		r, i := restored("rebuild@quant.* step=2 source=" + source)
		moved, blocks, values := 0, 0, 0
		for i, p := range r.Model.Params() {
			if p.Quant == nil {
				continue
			}
			of := quant.Of(want.Model.Params()[i])
			for j, s := range quant.Of(p).Fprop.Scales.F32() {
				if s != of.Fprop.Scales.F32()[j] {
					moved++
				}
				blocks++
			}
			a, b := quant.Of(p).Fprop.Dequantised(quant.AlongColumns), of.Fprop.Dequantised(quant.AlongColumns)
			for j := range a.F32() {
				if a.F32()[j] != b.F32()[j] {
					values++
				}
			}
		}
		t.Logf("%s: %d of %d blocks have another scale, %d elements another value", source, moved, blocks, values)
		share := float64(moved) / float64(blocks)
		require.LessOrEqual(t, share, most)
		require.Equal(t, source == rounded, values > 0)
		require.Equal(t, source == dequantised, share >= 0.03)
		acted, changed := i.Faults[0].Counts()
		require.True(t, acted >= changed && changed > 0)
		got := r.Step().Metrics
		require.Equal(t, source != rounded, slices.Equal(next, got), source)
	}
	require.True(t, slices.Equal(next, want.Step().Metrics))

	_, i := restored("rebuild@*.attn.wq.x.quant source=bf16")
	require.Zero(t, changes(i.Faults[0]), "quantisers of weights alone")
}

// newRun is a run of one rank.
func newRun(t *testing.T, c train.Config, with ...device.Middleware) *train.Trainer {
	corpus, err := c.Corpus()
	require.NoError(t, err)
	tr, err := train.NewRank(c, corpus, device.New(device.Options{}, with...), parallel.NewWorld(parallel.Layout{DP: 1}, 1).Rank(0), false)
	require.NoError(t, err)
	return tr
}
