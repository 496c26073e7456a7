package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/parallel"
	"firstbit/train"
)

// By the canonical recipe tensor cores add the recipe's parts, each as a chain, so every layout has the bits of one rank; an order by hand is the
// user's own.
func TestCanonicalOnTensorCores(t *testing.T) {
	losses := func(recipe, layout string, plans ...string) []uint64 {
		s := Spec{Config: train.Tiny(), Recipe: recipe, Plans: plans, Until: 2, Kept: Kept{Elements: true}}
		s.Config.Precision, s.Config.Model.MoE.Aux = "bf16", "sequence"
		var err error
		s.Layout, err = parallel.ParseLayout(layout)
		require.NoError(t, err)
		s.Config.Batch /= max(s.Layout.DP, 1)
		o, err := Run(s)
		require.NoError(t, err)
		return o.Elements
	}
	plans := []string{"* k:mma(hopper)", "*.experts.w?.dw rows:mma(hopper)", "*.attention* p:mma(hopper)"}
	want := losses("canonical", "dp=1", plans...)
	require.NotEqual(t, losses("canonical", "dp=1"), want, "control: tensor cores act")
	for _, layout := range []string{"tp=2", "dp=2", "tp=2,pp=2"} {
		require.Equal(t, want, losses("canonical", layout, plans...), layout)
	}
	require.NotEqual(t, want, losses("canonical", "tp=2", "* k:blocked(8)/mma(hopper)"), "control: another order")
}
