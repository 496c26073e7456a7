package verify

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/optim"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/train"
)

// skips says which steps of a run were skipped.
func skips(steps []train.Result) (all []bool) {
	for _, s := range steps {
		all = append(all, s.Skipped)
	}
	return all
}

// The cells whose steps are to be skipped have one that is, after the first, and the matrix's one that is taken after it.
func TestCellsSkipSteps(t *testing.T) {
	o, err := run.Run(variant{matrixPatterns[2], "fp16", skipping}.spec(parallel.Layout{}, "fixed"))
	require.NoError(t, err)
	require.Equal(t, []bool{false, true, false}, skips(o.Steps))
	found := 0
	for _, c := range resumeCells() {
		if c.Config.Precision != "fp16" || !*exhaustive && c.Layout.World() > 1 {
			continue
		}
		o, err := run.Run(c.Spec)
		require.NoError(t, err)
		all := skips(o.Steps)
		require.Contains(t, all, true, c.name)
		require.False(t, all[0], c.name)
		found++
	}
	require.Positive(t, found)
}

// Every state of a scaled loss is needed: each decides the scale of a later step, of a run that grows or of one that backs off; and so does where
// the schedule of the learning rate is, beside the step, where some were skipped.
func TestStatesOfALossScaleAreNeeded(t *testing.T) {
	c := train.Tiny()
	c.Model.Pattern, c.Precision, c.Steps = "*E-", "fp16", 6
	grows, backsOff, skipped := c, c, c
	grows.Optim.LossScale = optim.LossScaleConfig{Initial: 1 << 8, Min: 1, GrowthInterval: 2, Hysteresis: 2}
	backsOff.Optim.LossScale = optim.LossScaleConfig{Initial: 1 << 40, Min: 1, GrowthInterval: 4, Hysteresis: 2}
	skipped.Optim.LossScale = optim.LossScaleConfig{Initial: 1 << 22, Min: 1, GrowthInterval: 100, Hysteresis: 1}
	needed := map[string]bool{}
	for _, l := range []parallel.Layout{{}, {DP: 2, TP: 2}} {
		for name, of := range map[string]struct {
			train.Config
			states []string
		}{
			"grows":     {grows, []string{"loss_scale.scale", "loss_scale.growth_tracker"}},
			"backs off": {backsOff, []string{"loss_scale.scale", "loss_scale.hysteresis_tracker"}},
			"skipped":   {skipped, []string{"lr.position", "optim.step"}},
		} {
			s := run.Spec{Config: of.Config, Layout: l.Full(), Kept: run.Kept{Digest: true}, Save: run.Save{Dir: t.TempDir(), Every: 3}}
			want, err := InProcess(s, 2)
			require.NoError(t, err)
			require.Equal(t, name != "grows", skips(want)[0], name)
			require.Equal(t, name == "backs off", skips(want)[5], name)
			s.Resume, s.Save = filepath.Join(s.Save.Dir, "step000003"), run.Save{}
			same, err := InProcess(s, 2)
			require.NoError(t, err)
			for i, r := range same {
				require.Empty(t, differs(want[3+i], r), name)
			}
			for _, state := range of.states {
				s.Faults = []string{"drop@" + state}
				got, err := InProcess(s, 2)
				require.NoError(t, err)
				why := ""
				for i, r := range got[1:] { // not by the state, of which what is dropped is a part
					why += differs(metricsOnly(want[4+i]), metricsOnly(r))
				}
				require.NotEmpty(t, why, "%s: without %s nothing else differs", name, state)
				needed[state] = true
			}
		}
	}
	require.Len(t, needed, 5)
}

func metricsOnly(r train.Result) train.Result {
	r.State = ""
	return r
}
