package verify

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/checkpoint"
	"firstbit/experiments"
	"firstbit/parallel"
)

// assembled is the state after a step of a run that saved it, whatever its layout.
func assembled(t *testing.T, dir string, step int) *checkpoint.Whole {
	t.Helper()
	c, err := checkpoint.Read(filepath.Join(dir, fmt.Sprintf("step%06d", step)))
	require.NoError(t, err)
	w, err := c.Assemble()
	require.NoError(t, err)
	return w
}

// By the recipe canonical a run that is stopped on one layout continues on every other, and back again, with the bits of one that never
// stopped.
func TestResumeOnAnotherLayout(t *testing.T) {
	layouts := []string{"dp=2,tp=2", "dp=1", "cp=2", "pp=2,ep=2", "tp=2,pp=2,ep=4", "dp=4,ep=2", "pp=2,vpp=2"}
	settings := []setting{{"M*EM*EM*/*E", "bf16"}, {"M*EM*EM*/*E", "fp32"}}
	if testing.Short() { // under the race detector
		layouts, settings = layouts[:2], settings[:1]
	}
	for _, s := range settings {
		t.Run(s.precision, func(t *testing.T) {
			dir := t.TempDir()
			at := func(text string) experiments.Spec {
				l, err := parallel.ParseLayout(text)
				require.NoError(t, err)
				spec := s.spec(l, "canonical")
				spec.Config.Steps, spec.Config.Model.Dropout, spec.Config.Model.MoE.Jitter = 5, 0.1, 0.05
				return spec
			}
			spec := at(layouts[0])
			spec.Save = experiments.Save{Dir: filepath.Join(dir, "whole"), Every: 1}
			want, err := experiments.Run(spec)
			require.NoError(t, err)
			from := spec.Save.Dir
			for i, next := range append(layouts[1:], layouts[0]) { // each goes on from the one before
				spec := at(next)
				spec.Resume = filepath.Join(from, fmt.Sprintf("step%06d", 1+i%4))
				after := 1 + i%4
				if i > 0 && after == 1 {
					spec.Resume = filepath.Join(dir, "whole", "step000001")
				}
				spec.Save = experiments.Save{Dir: filepath.Join(dir, fmt.Sprint(i)), Every: 1}
				got, err := experiments.Run(spec)
				require.NoError(t, err, next)
				require.Empty(t, got.Resharded)
				require.Len(t, got.Steps, 5-after)
				for _, r := range got.Steps {
					require.Equal(t, want.Steps[r.Step-1].Metrics, r.Metrics, "%s, step %d", next, r.Step)
					require.Empty(t, assembled(t, filepath.Join(dir, "whole"), r.Step).Differ(assembled(t, spec.Save.Dir, r.Step)), "%s, step %d", next, r.Step)
				}
				from = spec.Save.Dir
			}
		})
	}
}
