package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/checkpoint"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/train"
)

// stopped is a cell that is stopped after fewer of its steps, unless tests are exhaustive.
func (r resumeCell) stopped(after int) resumeCell {
	if !*exhaustive {
		r.Config.Steps = after + 1
	}
	return r
}

// All cells are for the command: here one of every precision, and of every layout and model between them.
func TestResume(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes under the race detector")
	}
	few := []string{"dp1 fp32 mtp", "dp4 bf16 noise", "tp2·pp2·ep2 fp16 noise", "dp4 fp8 mtp replicated", "tp2·pp2·ep2 fp8 noise", "dp1 mxfp8 mtp", "tp2·pp2·ep2 nvfp4 mtp packed", "pp2·vpp2 fp32 noise"}
	for _, c := range resumeCells() {
		i := slices.IndexFunc(few, func(name string) bool { return strings.HasSuffix(c.name, name) })
		if i < 0 {
			continue
		}
		few = slices.Delete(few, i, i+1)
		cell, err := c.stopped(2).verify(InProcess, nil)
		require.NoError(t, err)
		require.True(t, cell.OK, "%s: %v", cell.Name, cell.Why)
	}
	require.Empty(t, few, "of these there are no cells")
}

// The formats and optimizers that no cell has.
func TestResumeOfOtherRuns(t *testing.T) {
	fp64, canonical, pico := train.Tiny(), train.Tiny(), train.Pico()
	fp64.Precision = "fp64"
	canonical.Model.MoE.Aux = "sequence"
	for _, s := range []run.Spec{
		{Config: fp64},
		{Config: fp64, Layout: parallel.Layout{DP: 2}},
		{Config: canonical, Layout: parallel.Layout{DP: 2}, Recipe: "canonical"},
		{Config: pico, Layout: parallel.Layout{DP: 8}},
		{Config: canonical, Plans: []string{"*.dprob tiles:reverse"}},
	} {
		s.Config.Steps, s.Digest = resumeSteps, true
		cell, err := resumeCell{"", s}.stopped(2).verify(InProcess, nil)
		require.NoError(t, err)
		require.True(t, cell.OK, "%v: %v", s, cell.Why)
	}
}

// What is saved before the windows of an epoch have all been dealt continues in the next.
func TestResumeAcrossEpochs(t *testing.T) {
	s := run.Spec{Config: train.Pico(), Kept: run.Kept{Digest: true}}
	s.Config.Steps, s.Config.Batch, s.Config.Data = 4, 2, filepath.Join(t.TempDir(), "text")
	text := strings.Repeat("five windows of sixteen. ", 4)[:5*s.Config.Seq+1]
	require.NoError(t, os.WriteFile(s.Config.Data, []byte(text), 0o644))
	partial := s // steps of two microbatches, two and one
	partial.Config.Batch, partial.Config.Micro, partial.Config.EpochEnd = 1, 2, "partial"
	partial.Layout.PP = 2
	for _, s := range []run.Spec{s, partial} {
		cell, err := resumeCell{"", s}.verify(InProcess, nil)
		require.NoError(t, err)
		require.True(t, cell.OK, "%v", cell.Why)
		cell, err = resumeCell{"", s}.verify(InProcess, []string{"set@data.consumed value=1"})
		require.NoError(t, err)
		require.False(t, cell.OK, "negative control")
	}
}

// Every state of a checkpoint is needed: without it, or with one bit of it changed, something else differs later.
func TestEveryStateIsNeeded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes under the race detector")
	}
	noise, mtp := train.Tiny(), train.Tiny()
	noise.Model.Pattern, noise.Model.Dropout, noise.Model.MoE.Jitter, noise.Model.Recompute = "M*E-", 0.1, 0.05, true
	noise.Model.Tied = true
	mtp.Model.Pattern = "--/*E"
	for i, l := range []parallel.Layout{{DP: 2}, {TP: 2, PP: 2, EP: 2}} {
		for j, c := range []train.Config{noise, mtp} {
			if !*exhaustive && i != j {
				continue
			}
			c.Steps, c.Precision, c.Cluster.Bucket = 5, "bf16", 1<<12
			ablate(t, run.Spec{Config: c, Layout: l.Full(), Kept: run.Kept{Digest: true}})
		}
	}
	noise.Steps, noise.Precision, noise.Optim.Replicated = 5, "bf16", true
	ablate(t, run.Spec{Config: noise, Layout: parallel.Layout{DP: 2}.Full(), Kept: run.Kept{Digest: true}})
}

func ablate(t *testing.T, s run.Spec) {
	dir := t.TempDir()
	s.Save = run.Save{Dir: filepath.Join(dir, "whole"), Every: 3}
	want, err := InProcess(s, 2)
	require.NoError(t, err)
	last := fmt.Sprintf("step%06d", s.Config.Steps)
	state, err := checkpoint.ReadManifest(filepath.Join(s.Save.Dir, last))
	require.NoError(t, err)
	s.Resume = filepath.Join(s.Save.Dir, "step000003")
	saved, err := checkpoint.ReadManifest(s.Resume)
	require.NoError(t, err)
	runs := 0
	differs := func(name string, faults ...string) bool {
		runs++
		with := s
		with.Faults = faults
		with.Save = run.Save{Dir: filepath.Join(dir, fmt.Sprint(runs))}
		o, err := run.Run(with)
		require.NoError(t, err, faults)
		for _, f := range o.Faults {
			require.NotZero(t, f.Acted, "%s acted on nothing", f.Spec)
		}
		got, err := checkpoint.ReadManifest(filepath.Join(with.Save.Dir, last))
		require.NoError(t, err)
		return laterDiffers(want[3:], o.Steps, state, got, name)
	}
	seen := map[string]bool{}
	for rank, f := range saved.Files {
		on := ""
		if s.Config.Optim.Replicated { // what one replica lacks
			if rank == 0 {
				continue
			}
			on = fmt.Sprint(" rank=", rank)
		}
		for _, x := range f.Tensors {
			of := x.Name
			if !*exhaustive { // one state of each kind
				of = kindOf(x.Name)
			}
			if seen[of] {
				continue
			}
			seen[of] = true
			switch drop := "drop@" + x.Name + on; {
			case x.Name == "train.step" && on != "":
				with := s
				with.Faults, with.Save = []string{drop}, run.Save{}
				_, err := run.Run(with)
				require.ErrorContains(t, err, "they are of different times")
			case strings.HasSuffix(x.Name, ".tokens"):
				// Counts of tokens are zero after every step, so omitting them loses nothing. Other counts would move the bias.
				require.False(t, differs(x.Name, drop), "%s is not zero", x.Name)
				require.True(t, differs(x.Name, fmt.Sprintf("flip@%s phase=load step=3 rank=%d elem=0 bit=5", x.Name, rank)), "%s: nothing else differs", x.Name)
			case hasMaster(saved, x.Name):
				// The weight is made of its master again, unless that fails too.
				require.False(t, differs(x.Name, drop), "%s is not made of its master", x.Name)
				require.True(t, differs(x.Name, drop, "drop@weights.*"+on), "%s: nothing else differs", x.Name)
			default:
				require.True(t, differs(x.Name, drop), "%s: nothing else differs", x.Name)
			}
		}
	}
	t.Logf("%s: %d states, %d runs", s.Layout, len(seen), runs)
}

// kindOf is what a state is of a weight or a router, or its name.
func kindOf(name string) string {
	for _, kind := range []string{".master", ".m", ".v", ".bias", ".tokens"} {
		if strings.HasSuffix(name, kind) {
			return kind
		}
	}
	if strings.HasPrefix(name, "layers.") || strings.HasPrefix(name, "mtp.") {
		return "a weight"
	}
	return name
}

// hasMaster tells whether a rank holds masters of a weight.
func hasMaster(m *checkpoint.Manifest, name string) bool {
	return slices.ContainsFunc(m.Files, func(f checkpoint.RankFile) bool {
		return slices.ContainsFunc(f.Tensors, func(x checkpoint.Entry) bool { return x.Name == name+".master" })
	})
}

// laterDiffers tells whether a metric differs, or a tensor of another name.
func laterDiffers(want, got []train.Result, a, b *checkpoint.Manifest, name string) bool {
	for i, w := range want {
		for j, m := range w.Metrics {
			if got[i].Metrics[j].Bits != m.Bits {
				return true
			}
		}
	}
	for rank, f := range a.Files {
		for i, x := range f.Tensors {
			if x.Digest != b.Files[rank].Tensors[i].Digest && x.Name != name {
				return true
			}
		}
	}
	return false
}

// What must fail: a run that restores all but one thing.
func TestResumeNegativeControl(t *testing.T) {
	cells := resumeCells()
	for _, c := range []struct{ fault, why string }{
		{"drop@rng.*", "stopped after step 1: step 2: metric "},
		{"drop@data.consumed", "stopped after step 1: step 2: metric "},
		{"drop@*.v", "stopped after step 1: step 2: state "},
	} {
		cell, err := cells[0].stopped(1).verify(InProcess, []string{c.fault})
		require.NoError(t, err)
		require.False(t, cell.OK, c.fault)
		require.True(t, strings.HasPrefix(*cell.Why, c.why), "%s: %s", c.fault, *cell.Why)
	}
	// One rank of a layout that lacks its own part is enough.
	layout := cells[slices.IndexFunc(cells, func(c resumeCell) bool { return c.name == "tp2·pp2·ep2 bf16 mtp packed" })]
	for _, fault := range []string{"drop@*.experts.w1.master rank=3", "drop@*.bias rank=2", "drop@*.m rank=1"} {
		cell, err := layout.stopped(1).verify(InProcess, []string{fault})
		require.NoError(t, err)
		require.False(t, cell.OK, fault)
	}
	delayed := cells[slices.IndexFunc(cells, func(c resumeCell) bool { return c.name == "dp4 fp8 noise" })]
	lost, err := delayed.stopped(1).verify(InProcess, []string{"drop@*.history"})
	require.NoError(t, err)
	require.False(t, lost.OK)
	again := cells[0]
	again.Config.Steps = 2
	cell, err := again.verify(InProcess, []string{"drop@train.step"})
	require.NoError(t, err)
	require.Equal(t, "stopped after step 1: 2 steps follow: must be 1", *cell.Why)

	// What nobody reads changes no state and no metric, and the trace shows it.
	again.Config.Model.Recompute = false
	unread, err := again.verify(InProcess, []string{"flip@layers.0.dropout.mask out=before step=2 elem=0 bit=3"})
	require.NoError(t, err)
	require.Contains(t, *unread.Why, "stopped after step 1: traces of step 2: origin at layers.0.dropout.mask, fwd: ")

	_, err = InProcess(run.Spec{Config: train.Tiny(), Resume: t.TempDir()}, 1)
	require.ErrorContains(t, err, "holds none")
}
