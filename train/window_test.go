package train

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/data"
	"firstbit/device"
	"firstbit/parallel"
)

// windows is a run whose epochs end with what is left.
func windows(batch, micro int) Config {
	c := tiniest("*-", "fp64")
	c.Batch, c.Micro, c.Steps, c.EpochEnd = batch, micro, 20, "partial"
	return c
}

func corpusOf(c Config, samples int) *data.Corpus {
	corpus := &data.Corpus{Name: "made", Vocab: c.Model.Vocab, Documents: []int32{0}}
	for i := range samples*c.Seq + 1 + c.Seq/2 { // half a sample is not dealt
		corpus.Tokens = append(corpus.Tokens, uint16(i*i%97%c.Model.Vocab))
		if i > 0 && i*i%23 < 3 {
			corpus.Documents = append(corpus.Documents, int32(i))
		}
	}
	return corpus
}

// begun is a run of one rank of a layout before its first step.
func begun(t *testing.T, c Config, samples int, l parallel.Layout) (*Trainer, error) {
	t.Helper()
	w := parallel.NewWorld(l, 4)
	return NewRank(c, corpusOf(c, samples), device.New(device.Options{At: w.At(0)}), w.Rank(0), false)
}

// Windows of an epoch, and the samples consumed after each, as the run counts them and as a checkpoint is held to.
func TestWindowsOfAnEpoch(t *testing.T) {
	for _, tt := range []struct {
		samples, batch, micro int
		layout                parallel.Layout
		windows               []int
		consumed              []int64
	}{
		{11, 2, 2, parallel.Layout{DP: 1}, []int{2, 2, 1, 2}, []int64{4, 8, 11, 15}}, // one sample of eleven is not dealt
		{8, 2, 2, parallel.Layout{DP: 1}, []int{2, 2, 2}, []int64{4, 8, 12}},         // nothing is left
		{9, 2, 2, parallel.Layout{DP: 1}, []int{2, 2, 2}, []int64{4, 9, 13}},         // less than a microbatch is left
		{11, 1, 4, parallel.Layout{DP: 2}, []int{4, 1, 4}, []int64{8, 11, 19}},
		{14, 1, 4, parallel.Layout{DP: 1, PP: 2, VPP: 2}, []int{4, 4, 4, 2, 4}, []int64{4, 8, 12, 14, 18}},
		{15, 1, 4, parallel.Layout{DP: 1, PP: 2, VPP: 2}, []int{4, 4, 4, 2, 4}, []int64{4, 8, 12, 15, 19}}, // microbatches go two at a time
		{3, 1, 4, parallel.Layout{DP: 1}, []int{3, 3}, []int64{3, 6}},                                      // every window is short
	} {
		c := windows(tt.batch, tt.micro)
		c.Model.Pattern = "*-*-"
		tr, err := begun(t, c, tt.samples, tt.layout)
		require.NoError(t, err)
		for i, w := range tt.windows {
			require.Equal(t, w, tr.windowAt(tr.consumed), "%+v, step %d", tt, i+1)
			tr.consumed = tr.after(tr.consumed, w)
			require.Equal(t, tt.consumed[i], tr.consumed, "%+v, step %d", tt, i+1)
			require.Equal(t, tr.consumed, tr.consumedBy(int64(i+1)), "%+v, step %d", tt, i+1)
		}
		tr.EpochEnd = ""
		require.Equal(t, tt.micro, tr.windowAt(tt.consumed[1]))
		require.EqualValues(t, 3*tt.batch*tt.micro*tt.layout.Full().DP, tr.consumedBy(3))
	}
	_, err := begun(t, windows(2, 2), 3, parallel.Layout{DP: 2})
	require.EqualError(t, err, "epoch_end: partial: data made has 3 samples of 16 tokens: must be at least 4, a microbatch for every rank")
}

// A short window has the losses and gradients of a run whose windows are all as short: divided by what there is, not by what there might be.
func TestAShortWindowIsDividedByItsOwn(t *testing.T) {
	for _, documents := range []bool{false, true} {
		c := windows(2, 4)
		if documents {
			c.Documents = data.Documents{EODMaskLoss: true, Prompt: 0.3}
			c.PerToken = true
		}
		long, err := begun(t, c, 11, parallel.Layout{DP: 1})
		require.NoError(t, err)
		c.Micro = 1
		short, err := begun(t, c, 11, parallel.Layout{DP: 1})
		require.NoError(t, err)
		long.consumed, short.consumed = 8, 8
		a, b := long.Step(), short.Step()
		require.Equal(t, 1, long.window)
		require.Equal(t, b.Metrics, a.Metrics)
		c.Micro, c.EpochEnd = 4, "partial_by_micro"
		byMicro, err := begun(t, c, 11, parallel.Layout{DP: 1})
		require.NoError(t, err)
		byMicro.consumed = 8
		loss, full := byMicro.Step().Metrics[0].Value, a.Metrics[0].Value
		if documents { // divided by labels
			require.Equal(t, full, loss)
			continue
		}
		require.InDelta(t, full/4, loss, 1e-15)
	}
}

// One normaliser for the step is the same whatever its microbatches are, and one for each is not, where they have other numbers of labels.
func TestOneNormaliserForTheStep(t *testing.T) {
	loss := func(perToken bool, batch int) []Metric {
		c := windows(batch, 8/batch)
		c.Documents, c.PerToken, c.EpochEnd = data.Documents{ResetAttentionMask: true, EODMaskLoss: true, Prompt: 0.3}, perToken, ""
		tr, err := begun(t, c, 16, parallel.Layout{DP: 1})
		require.NoError(t, err)
		return tr.Step().Metrics
	}
	near := func(a, b []Metric) bool {
		for i := range a {
			if d := a[i].Value - b[i].Value; d > 1e-12 || d < -1e-12 {
				return false
			}
		}
		return true
	}
	require.True(t, near(loss(true, 1), loss(true, 4)))
	require.False(t, near(loss(false, 1), loss(false, 4)))
	require.False(t, near(loss(true, 4), loss(false, 4)))
}

// Without a single label a step divides by one, and its loss is 0.
func TestAStepWithoutLabels(t *testing.T) {
	c := windows(1, 1)
	c.Documents, c.PerToken, c.EpochEnd = data.Documents{Prompt: 0.999}, true, ""
	tr, err := begun(t, c, 16, parallel.Layout{DP: 1})
	require.NoError(t, err)
	tr.Corpus.Documents = []int32{0, int32(len(tr.Corpus.Tokens) - 1)}
	r := tr.Step()
	require.Zero(t, r.Metrics[0].Value)
	require.Empty(t, r.NonFinite)
	require.EqualValues(t, 0, tr.labels.all.I32()[0])
}

// A recomputation sees the boundaries that its forward saw.
func TestRecomputedDocumentsAreTheSame(t *testing.T) {
	metrics := func(recompute, reset bool) []Metric {
		c := windows(2, 2)
		c.Model.Pattern, c.Model.Recompute, c.EpochEnd = "M*E-", recompute, ""
		c.Documents = data.Documents{ResetAttentionMask: reset, EODMaskLoss: true}
		tr, err := begun(t, c, 16, parallel.Layout{DP: 1})
		require.NoError(t, err)
		tr.Step()
		return tr.Step().Metrics
	}
	require.Equal(t, metrics(false, true), metrics(true, true))
	require.NotEqual(t, metrics(false, true), metrics(false, false), "negative control")
}
