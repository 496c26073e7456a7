package parity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/data"
	"firstbit/parallel"
	"firstbit/train"
)

// packedSteps are two steps over a layout.
func (r reference) packedSteps(t *testing.T, l parallel.Layout, change func(*train.Config)) map[string][]float64 {
	c := train.Tiny()
	c.Model, c.Precision, c.Steps, c.Batch, c.Micro, c.Seq = r.config(t), "fp64", 2, 2, 4/l.Full().DP, 12
	c.Optim.LR, c.Optim.MinLR, c.Optim.Warmup, c.Optim.Decay, c.Optim.Weight, c.Optim.Clip = 1e-2, 0, 0, "constant", 0, 0.25
	c.Documents, c.PerToken, c.EpochEnd = data.Documents{ResetAttentionMask: true, EODMaskLoss: true, Prompt: 0.4}, r.name == "packed", "partial"
	change(&c)
	return r.steps(t, c, r.corpus(t, c.Model.Vocab), l)
}

// Losses, norms, gradients and weights of two steps on packed documents are those of PyTorch's scaled_dot_product_attention with
// a block-diagonal mask, of a recurrence for each document, and of cross_entropy over labels that are left out: with one normaliser
// for the step and with one for each microbatch, where the second step has half a window, on one rank and on several.
func TestPackedDocuments(t *testing.T) {
	for _, name := range []string{"packed", "packed_micro"} {
		r := reference{name: name}
		c := r.corpus(t, r.config(t).Vocab)
		s, err := data.NewSampler(c, 12, train.Tiny().Seed, data.Documents{})
		require.NoError(t, err)
		for _, window := range ids(t, r.file(t, "outputs"), "windows").I32() {
			tokens, targets := make([]int32, 12), make([]int32, 12)
			s.Next(tokens, targets, nil)
			for i, v := range tokens {
				require.EqualValues(t, c.Tokens[12*int(window)+i], v, "the windows that packed.py takes")
			}
		}
		for _, l := range []parallel.Layout{{DP: 1}, {DP: 2}, {CP: 2}} {
			far, tensor := r.far(t, r.packedSteps(t, l, func(*train.Config) {}))
			require.LessOrEqual(t, far, 1e-10, "%s %s: %s", name, l, tensor)
		}
		for what, change := range map[string]func(*train.Config){
			"attention across documents":   func(c *train.Config) { c.Documents.ResetAttentionMask = false },
			"labels across documents":      func(c *train.Config) { c.Documents.EODMaskLoss = false },
			"labels of prompts":            func(c *train.Config) { c.Documents.Prompt = 0 },
			"the other normaliser":         func(c *train.Config) { c.PerToken = !c.PerToken },
			"a window into the next epoch": func(c *train.Config) { c.EpochEnd = "continue" },
		} {
			far, _ := r.far(t, r.packedSteps(t, parallel.Layout{DP: 1}, change))
			require.Greater(t, far, 1e-4, "negative control: %s", what)
		}
	}
}
