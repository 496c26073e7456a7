package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/train"
)

// metrics are those of every step.
func metrics(o *Outcome) (all [][]train.Metric) {
	for _, s := range o.Steps {
		all = append(all, s.Metrics)
	}
	return all
}

var replicatedLayouts = []string{"dp=4", "dp=2,tp=2,ep=2", "dp=2,cp=2", "pp=2,vpp=2,ep=2", "dp=2,tp=2,pp=2,ep=4", "tp=2,ep=2,etp=2,dp=2"}

// By the canonical recipe a replicated optimizer has the bits of a sharded one: gradients add by the same tree, and squares exactly. By the fixed one
// too where nothing is clipped: an all-reduce adds each chunk in the order in which a reduce-scatter does. The squares of a replica and those of
// shards are other sums, so the norm, and whatever it clips, has other bits. Overlap changes none of it.
func TestReplicatedIsSharded(t *testing.T) {
	layouts := replicatedLayouts
	if !*matrix {
		layouts = layouts[:2]
	}
	for i, layout := range layouts {
		of := func(replicated, overlap bool, change func(*Spec)) [][]train.Metric {
			return metrics(overlapped(t, layout, overlap, 1, func(s *Spec) {
				s.Config.Optim.Replicated, s.Config.Steps = replicated, 2
				change(s)
			}))
		}
		fixed := func(s *Spec) {
			s.Config.Optim.Clip = 0
			s.Config.Precision = []string{"fp32", "bf16", "nvfp4"}[i%3]
		}
		canonical := func(s *Spec) { s.Recipe, s.Config.Model.MoE.Aux = "canonical", "sequence" }
		if layout != "tp=2,ep=2,etp=2,dp=2" { // which the recipe refuses
			want := of(false, false, canonical)
			require.Equal(t, want, of(true, false, canonical), layout)
			require.Equal(t, want, of(true, true, canonical), layout)
			require.Equal(t, want, of(false, true, canonical), layout)
		}
		clipped := func(s *Spec) { s.Config.Optim.Clip = 0.1 }
		require.NotEqual(t, of(false, false, clipped)[1], of(true, false, clipped)[1], "negative control: the norm")
		want, got := of(false, false, fixed), of(true, false, fixed)
		require.Equal(t, got, of(true, true, fixed), layout)
		for step := range want {
			for j, m := range want[step] {
				if m.Name != "grad_norm" {
					require.Equal(t, m, got[step][j], layout)
				}
			}
		}
	}
}
