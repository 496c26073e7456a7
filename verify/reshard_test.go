package verify

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/checkpoint"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/train"
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

// By the recipe canonical a run that is stopped on one layout continues on every other, and back again, its optimizer replicated or sharded, with
// the bits of one that never stopped.
func TestResumeOnAnotherLayout(t *testing.T) {
	layouts := []string{"dp=2,tp=2", "dp=1", "cp=2", "pp=2,ep=2", "tp=2,pp=2,ep=4", "dp=4,ep=2", "pp=2,vpp=2"}
	variants := []variant{{"M*EM*EM*/*E", "bf16", plain}, {"M*EM*EM*/*E", "fp32", plain}}
	if !*exhaustive {
		variants = variants[:1]
	}
	if testing.Short() { // under the race detector
		layouts, variants = layouts[:2], variants[:1]
	}
	for _, s := range variants {
		t.Run(s.precision, func(t *testing.T) {
			dir := t.TempDir()
			at := func(text string) run.Spec {
				l, err := parallel.ParseLayout(text)
				require.NoError(t, err)
				spec := s.spec(l, "canonical")
				spec.Config.Steps, spec.Config.Model.Dropout, spec.Config.Model.MoE.Jitter = 5, 0.1, 0.05
				return spec
			}
			spec := at(layouts[0])
			spec.Save = run.Save{Dir: filepath.Join(dir, "whole"), Every: 1}
			want, err := run.Run(spec)
			require.NoError(t, err)
			from := spec.Save.Dir
			for i, next := range append(layouts[1:], layouts[0]) { // each goes on from the one before
				spec := at(next)
				spec.Config.Optim.Replicated = i%2 == 0
				spec.Resume = filepath.Join(from, fmt.Sprintf("step%06d", 1+i%4))
				after := 1 + i%4
				if i > 0 && after == 1 {
					spec.Resume = filepath.Join(dir, "whole", "step000001")
				}
				spec.Save = run.Save{Dir: filepath.Join(dir, fmt.Sprint(i)), Every: 1}
				got, err := run.Run(spec)
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

// Where stages end is layout: by the recipe canonical a run continues with its bits though they end elsewhere, or nowhere. By another recipe, and
// with other layers, it does not.
func TestResumeWithOtherCuts(t *testing.T) {
	at := func(layout, pattern, recipe string) run.Spec {
		l, err := parallel.ParseLayout(layout)
		require.NoError(t, err)
		s := variant{pattern, "fp32", plain}.spec(l, recipe)
		s.Config.Steps = 3
		return s
	}
	dir := t.TempDir()
	save := func(recipe string) (string, []train.Result) {
		s := at("pp=2", "M*|E-", recipe)
		s.Save = run.Save{Dir: filepath.Join(dir, recipe), Every: 1}
		o, err := run.Run(s)
		require.NoError(t, err)
		return filepath.Join(s.Save.Dir, "step000001"), o.Steps[1:]
	}
	from, want := save("canonical")
	for _, c := range []struct{ layout, pattern string }{{"pp=2", "M|*E-"}, {"pp=2", "M*E-"}, {"pp=2,vpp=2", "M|*|E|-"}, {"dp=1", "M*E-"}} {
		s := at(c.layout, c.pattern, "canonical")
		s.Resume = from
		o, err := run.Run(s)
		require.NoError(t, err, c.pattern)
		require.Empty(t, o.Resharded)
		require.Len(t, o.Steps, len(want))
		for i, r := range o.Steps {
			require.Equal(t, want[i].Metrics, r.Metrics, "%s, step %d", c.pattern, r.Step)
		}
	}
	s := at("pp=2", "M*|EE", "canonical")
	s.Resume = from
	_, err := run.Run(s)
	require.ErrorContains(t, err, "model.pattern: M*|E- was saved, this run has M*|EE: must be the same")

	s = at("pp=2", "M|*E-", "fixed")
	s.Resume, _ = save("fixed")
	_, err = run.Run(s)
	require.ErrorContains(t, err, "model.pattern: M*|E- was saved, this run has M|*E-: must be the same")
	s.Reshard = true
	o, err := run.Run(s)
	require.NoError(t, err)
	require.NotEmpty(t, o.Resharded)
}
