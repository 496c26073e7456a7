package run

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/checkpoint"
	"firstbit/device"
	"firstbit/diff"
	"firstbit/lowp"
	"firstbit/parallel"
	"firstbit/trace"
	"firstbit/train"
)

// saved is a run over a layout, saved after step 2 of 5, and what continues it.
func saved(t *testing.T, layout string) (from string, on Spec) {
	t.Helper()
	l, err := parallel.ParseLayout(layout)
	require.NoError(t, err)
	on = Spec{Config: train.Pico(), Layout: l, Kept: Kept{Load: true}}
	on.Config.Steps = 5
	to := on
	to.Until, to.Save.Dir = 2, filepath.Join(t.TempDir(), "saved")
	_, err = Run(to)
	require.NoError(t, err)
	from = filepath.Join(to.Save.Dir, "step000002")
	on.Resume = from
	return from, on
}

// forged is a checkpoint in which a rank has another number as a state, with the digests that fit.
func forged(t *testing.T, from, state string, rank int, n ...float64) string {
	t.Helper()
	c, err := checkpoint.Read(from)
	require.NoError(t, err)
	s, err := checkpoint.NewSaver(filepath.Join(t.TempDir(), "forged"), 0, len(c.Ranks), 0, *c.Manifest)
	require.NoError(t, err)
	for r, f := range c.Ranks {
		tensors := append([]checkpoint.Tensor{}, f.Tensors...)
		for i, x := range tensors {
			tensors[i] = x.At(*c.Files[r].Tensors[i].Place)
			if x.Name == state && r == rank {
				other := device.NewTensor(lowp.INT32, x.Shape...)
				for j, v := range n {
					other.Set(j, v)
				}
				tensors[i] = checkpoint.Of(state, other).At(*c.Files[r].Tensors[i].Place)
			}
		}
		require.NoError(t, s.Put(r, c.Step, tensors))
	}
	return filepath.Join(s.Dir, "step000002")
}

// A counter that no run can have is refused in one line that names what made it so. One that is only wrong is what restores are studied for.
func TestRestoredCounters(t *testing.T) {
	from, on := saved(t, "dp=2")
	inject := func(fault string) error {
		s := on
		s.Faults = []string{fault}
		_, err := Run(s)
		return err
	}
	for _, c := range []struct{ fault, want string }{
		{"set@train.step value=9", `tensor "train.step": is 9: must be from 0 to 4`},
		{"set@train.step value=5", `tensor "train.step": is 5: must be from 0 to 4`},
		{"set@train.step value=-5", `tensor "train.step": is 4294967291: must be from 0 to 4`},
		{"set@train.step value=1000000", `tensor "train.step": is 1000000: must be from 0 to 4`},
		{"set@train.step elem=1 value=-1", `tensor "train.step": is -4294967294: must be from 0 to 4`},
		{"set@data.consumed elem=1 value=-1", `tensor "data.consumed": is -4294967292: must be from 0 to 9007199254740992`},
		{"set@data.consumed elem=1 value=-1 rank=1", `tensor "data.consumed": is -4294967292`},
		{"set@optim.step elem=1 value=-2147483648", `tensor "optim.step": is -9223372036854775806: must be from 0 to 1073741824`},
		{"set@lr.position elem=1 value=-2147483648", `tensor "lr.position": is -9223372036854775806: must be from 0 to 1073741824`},
		{"set@*.tokens elem=3 value=-1", `tensor "layers.2.moe.router.tokens": has -1 for expert 3: must be from 0 to 32, the tokens of a step`},
		{"set@*.tokens value=33", `has 33 for expert 0`},
		{"flip@train.step phase=load bit=31", `tensor "train.step": is 2147483650`},
		{"set@data.consumed value=0.5", `data.consumed: value=0.5: the state holds whole numbers from -2147483648 to 2147483647`},
		{"set@data.consumed value=1e300", `value=1e+300: the state holds whole numbers`},
		{"copy@train.step from=2", "from-rank: 2: must be from 0 to 1, the ranks that were saved"},
		{"copy@nothing from=7", ""},
		{"set@train.step value=3 rank=1", "they are of different times"}, // what such ranks do
		{"set@train.step value=1", ""},
		{"set@train.step value=4", ""},
		{"drop@train.step", ""},
		{"set@data.consumed elem=1 value=5", ""},
		{"drop@optim.step", ""},
		{"set@optim.step value=1073741824", ""},
		{"set@lr.position value=1073741824", ""},
		{"drop@lr.position", ""},
		{"set@*.tokens value=32", ""},
		{"set@layers.0.norm.w value=1e300", ""},
	} {
		err := inject(c.fault)
		if c.want == "" {
			require.NoError(t, err, c.fault)
			continue
		}
		require.ErrorContains(t, err, `--inject "`+c.fault+`": `)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
	}
	for _, c := range []struct {
		state string
		rank  int
		n     []float64
		want  string
	}{
		{"train.step", 0, []float64{9}, "is 9: must be 2 after step 2"},
		{"train.step", 1, []float64{1}, "is 1: must be 2 after step 2"},
		{"train.step", 1, []float64{2, -1}, "is -4294967294: must be 2 after step 2"},
		{"optim.step", 0, []float64{0, math32}, "must be 2 after step 2"},
		{"lr.position", 1, []float64{4, 0}, "is 4: must be 2 after step 2"},
		{"data.consumed", 1, []float64{4, -1}, "is -4294967292: must be 4 after step 2"},
		{"layers.2.moe.router.tokens", 1, []float64{0, -7}, "has -7 for expert 1: must be from 0 to 32"},
		{"train.step", 0, []float64{2}, ""},
	} {
		s := on
		s.Resume = forged(t, from, c.state, c.rank, c.n...)
		_, err := Run(s)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "checkpoint "+s.Resume+": "+[]string{"rank00000", "rank00001"}[c.rank]+`.safetensors: tensor "`+c.state+`": `)
		require.ErrorContains(t, err, c.want)
	}
}

const math32 = -2147483648

// A checkpoint of a run whose restore was broken holds what that run had, and says so; what continues it does too.
func TestFaultsAreKept(t *testing.T) {
	_, on := saved(t, "dp=1")
	on.Faults, on.Until, on.Save.Dir = []string{"drop@optim.step"}, 3, filepath.Join(t.TempDir(), "broken")
	_, err := Run(on)
	require.NoError(t, err)
	on.Resume, on.Faults, on.Until, on.Save.Dir = on.Save.Dir, nil, 4, filepath.Join(t.TempDir(), "again")
	_, err = Run(on)
	require.NoError(t, err)
	c, err := checkpoint.Open(on.Save.Dir)
	require.NoError(t, err)
	require.Equal(t, []string{"drop@optim.step"}, c.Provenance.Faults)
	step, ok := c.Ranks[0].Tensor("optim.step")
	require.True(t, ok)
	n, err := step.Values()
	require.NoError(t, err)
	require.Equal(t, []float64{2, 0}, n, "the updates since the restore")
}

// The trace of a run that goes back keeps what was restored, and goes on from there.
func TestTraceOfARunThatGoesBack(t *testing.T) {
	_, on := saved(t, "dp=1")
	var loads [2]int
	var traces [2]*trace.Trace
	for i, fault := range [][]string{nil, {"drop@train.step"}} {
		s := on
		s.Faults, s.Trace = fault, trace.Options{Dir: filepath.Join(t.TempDir(), "trace"), Level: trace.Op}
		o, err := Run(s)
		require.NoError(t, err)
		require.Equal(t, len(fault) == 1, len(o.Notes) == 1)
		traces[i], err = trace.Open(s.Trace.Dir)
		require.NoError(t, err)
		steps := map[int]bool{}
		for _, r := range traces[i].Ranks[0].Records {
			if steps[r.Iteration] = true; r.Phase == "load" {
				require.Equal(t, 2, r.Iteration)
				loads[i]++
			}
		}
		require.Equal(t, map[int]bool{0: true, 2: true, 3: true, 4: true, 5: true}, steps)
	}
	require.Equal(t, loads[0], loads[1])
	r, err := diff.Compare(traces[0], traces[1])
	require.NoError(t, err)
	require.Equal(t, "restore train.step", r.First.Verdict+" "+r.First.Name)
}

// A checkpoint says by what it was saved. Another program goes on from it, and says so.
func TestVersionOfACheckpoint(t *testing.T) {
	from, on := saved(t, "dp=1")
	c, err := checkpoint.Read(from)
	require.NoError(t, err)
	require.Equal(t, trace.Version(), c.Provenance.Version)
	o, err := Run(on)
	require.NoError(t, err)
	require.Empty(t, o.Notes)
	c.Provenance.Version = "v0.9"
	s, err := checkpoint.NewSaver(filepath.Join(t.TempDir(), "other"), 0, 1, 0, *c.Manifest)
	require.NoError(t, err)
	require.NoError(t, s.Put(0, 2, c.Ranks[0].Tensors))
	on.Resume = s.Dir
	o, err = Run(on)
	require.NoError(t, err)
	require.Len(t, o.Notes, 1)
	require.True(t, strings.HasSuffix(o.Notes[0], "was saved by firstbit v0.9, this is "+trace.Version()), o.Notes[0])
}
