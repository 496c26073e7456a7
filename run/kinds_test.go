package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/checkpoint"
	"firstbit/device"
	"firstbit/diff"
	"firstbit/inject"
	"firstbit/parallel"
	"firstbit/trace"
	"firstbit/train"
)

// kindRun is a small run with everything a fault can act on, under a schedule.
func kindRun(t *testing.T, layout string, faults ...string) Spec {
	t.Helper()
	l, err := parallel.ParseLayout(layout)
	require.NoError(t, err)
	c := train.Pico()
	c.Steps, c.Batch, c.Micro, c.Cluster.Bucket = 3, 1, 2, 2048
	c.Model.Dropout, c.Model.Recompute, c.Model.SSM.Groups = 0.1, true, 2
	return Spec{Config: c, Layout: l, Faults: faults, Schedule: device.Schedule{Seed: 5}, Kept: Kept{Digest: true}, Checks: Checks{Strict: true}}
}

// left is what a run left, and what was done to it; traced says at which level it is traced as well.
func left(t *testing.T, s Spec, traced trace.Level) (text string, acted, changed int) {
	t.Helper()
	if traced > trace.Off {
		s.Trace = trace.Options{Dir: filepath.Join(t.TempDir(), "t"), Level: traced}
	}
	o, err := Run(s)
	require.NoError(t, err, s.Faults)
	require.NoError(t, o.Missed)
	for _, step := range o.Steps {
		text += step.State + "\n"
		for _, m := range step.Metrics {
			text += m.Name + " " + m.Bits + "\n"
		}
	}
	for _, f := range o.Faults {
		acted, changed = acted+f.Acted, changed+f.Changed
	}
	return text, acted, changed
}

// The sums of a replicated optimizer are all-reduces of many tensors in one memory. Where a rank's part is missing all have the same other sum;
// where the Call does not run each keeps what it brought, and replicas part.
func TestDropOfTensorsInOneMemory(t *testing.T) {
	for _, c := range []struct {
		fault   string
		overlap bool
		changed int
		parts   bool
	}{
		{"drop@grads.bucket.1 step=2 rank=1", false, 1, false},
		{"drop@grads.bucket.1 step=2 rank=1", true, 1, false},
		{"drop@grads.bucket.1 step=2", false, 2, true},
		{"drop@grads.bucket.1 step=2", true, 2, true},
	} {
		s := kindRun(t, "dp=2", c.fault)
		s.Config.Optim.Replicated, s.Config.Cluster.Overlap = true, c.overlap
		first, acted, changed := left(t, s, trace.Off)
		require.Equal(t, []int{c.changed, c.changed}, []int{acted, changed}, c.fault)
		s.Trace = trace.Options{Dir: filepath.Join(t.TempDir(), "t"), Level: trace.Op}
		again, _, _ := left(t, s, trace.Off)
		require.Equal(t, first, again, c.fault)
		r, err := diff.Replicas(opened(t, s.Trace.Dir))
		require.NoError(t, err)
		require.Equal(t, c.parts, !r.Identical, c.fault)
		if c.parts {
			require.Equal(t, "grads.bucket.1", strings.TrimSuffix(r.First.Path(), ".wait"), c.fault)
			require.Equal(t, 2, r.First.Iteration, c.fault)
		}
	}
}

// Every kind of fault changes the run, the same way each time, watched or not. One that acts nowhere changes nothing.
func TestEveryKindOfFaultChangesARun(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range []struct {
		layout, fault  string
		acted, changed int // -1: some
	}{
		{"dp=1", "flip@layers.1.attn.wq.dw phase=bwd step=2 row=3 mask=ff00 stuck=1", 1, 1},
		{"dp=2", "set@layers.1.attn.wq value=1e3 elem=1 count=4 stride=16 dp=1 micro=1 step=2", 2, 2},
		{"dp=2", "set@layers.1.attn.wq.dw value=3 at=rest rank=1 micro=1 step=2", 1, 1},
		{"tp=2", "order@layers.*.w? k=reverse tp=1 micro=1 phase=rec step=2", -1, -1},
		{"dp=1", "drop@layers.1.attn.wq.dw step=2 micro=1", 1, 1},
		{"dp=2", "drop@grads.bucket.1 step=2 rank=1", 1, 1},
		{"dp=2", "drop@grads.bucket.1 step=2", 2, 2},
		{"tp=2", "drop@grads.bucket.*.sequence", -1, -1},
		{"dp=1", "unwritten@layers.1.attn.wq rows=3-5,9- step=2 micro=1 phase=fwd", 1, 1},
		{"dp=1", "repeat@layers.2.moe.router.tokens n=2 step=1 micro=0", 1, 1},
		{"dp=1", "repeat@layers.1.attn.wq.dw step=1 micro=0", 1, 1},
		{"dp=2", "repeat@grads.bucket.0 step=2", 2, 2},
		{"dp=2", "early@grads.bucket.0 step=2 rank=0", 1, 1},
		{"tp=2", "early@layers.1.attn.wq.dw in=a tp=1 step=2 micro=1", 1, 1},
		{"dp=1", "late@layers.1.attn.wq.grad micro=0 step=2", 1, 1},
		{"dp=2", "alias@*.w1.grad with=*.w2.grad step=2 dp=1", -1, -1},
		{"tp=2", "copy@layers.1.attn.wq.dw from-step=1 step=3 tp=0", 2, 2},
		{"tp=2", "seed@rng.dropout.tp step=2-", 4, 4},
		{"tp=2", "draw@rng.dropout.tp tp=0", 3, 3},
		{"tp=2", "draw@rng.dropout.tp tp=0 phase=bwd micro=1 step=2", 1, 1},
		{"dp=1", "live@*.dropout.mask micro=1 step=2", -1, -1},
		{"dp=1", "library@layers.1.attn.w? to=sim-13.1 step=2 micro=1", -1, -1},
		{"tp=2", "autotune@layers.3.mlp.*", -1, -1},
		{"dp=1", "capture@layers.1.attn.w?.dw step=2", -1, -1},
		{"tp=2", "swap@layers.2.moe.router.topk a=0 b=5 step=2 phase=fwd", -1, -1},
		{"dp=1", "cast@layers.1.attn.wq to=bf16 step=2", -1, -1},
		{"dp=1", "rebuild@quant.layers.1.attn.* step=2 source=bf16", -1, -1},
	} {
		t.Run(c.fault, func(t *testing.T) {
			f, err := inject.Parse(c.fault)
			require.NoError(t, err)
			seen[f.Kind()] = true
			with := func(faults ...string) Spec {
				s := kindRun(t, c.layout, faults...)
				if f.Kind() == "rebuild" { // the others are of sums that low precision may hold exactly
					s.Config.Precision = "mxfp8"
				}
				return s
			}
			healthy, _, _ := left(t, with(), trace.Off)
			faulty, acted, changed := left(t, with(c.fault), trace.Off)
			require.NotEqual(t, healthy, faulty)
			if c.acted >= 0 {
				require.Equal(t, []int{c.acted, c.changed}, []int{acted, changed})
			}
			require.Positive(t, changed)
			for _, level := range []trace.Level{trace.Off, trace.Kernel} {
				again, a, ch := left(t, with(c.fault), level)
				require.Equal(t, faulty, again, level.String())
				require.Equal(t, []int{acted, changed}, []int{a, ch})
			}
		})
	}
	for _, k := range inject.Kinds() {
		require.True(t, seen[k.Name] || k.Name == "probe", k.Name) // which changes what is seen of a run
	}
}

// A plan by hand may be of one rank, phase, microbatch and step. Members of a collective that have others are told apart.
func TestPlansOfOnePlace(t *testing.T) {
	with := func(plan string) Spec {
		s := kindRun(t, "dp=2")
		s.Plans = []string{plan}
		return s
	}
	healthy, _, _ := left(t, kindRun(t, "dp=2"), trace.Off)
	always, _, _ := left(t, with("layers.1.attn.wk k:reverse"), trace.Off)
	once, _, _ := left(t, with("layers.1.attn.wk rank=1 phase=fwd micro=1 k:reverse; step=2"), trace.Off)
	require.NotEqual(t, healthy, once)
	require.NotEqual(t, always, once)
	require.Equal(t, strings.SplitN(healthy, "\n", 2)[0], strings.SplitN(once, "\n", 2)[0], "step 1 is as it was")
	fault, _, changed := left(t, kindRun(t, "dp=2", "order@layers.1.attn.wk rank=1 phase=fwd micro=1 k=reverse step=2"), trace.Off)
	require.Equal(t, once, fault)
	require.Positive(t, changed)
	_, err := Run(with("grads.bucket.0 dp=1 ranks:reverse"))
	require.ErrorContains(t, err, "their plans are")
	require.NotContains(t, err.Error(), "\n")
}

// What a run restores may be of another step's checkpoint, beside the one that it continues.
func TestCopiesOfAnotherCheckpoint(t *testing.T) {
	s := kindRun(t, "tp=2")
	s.Config.Steps, s.Save = 3, Save{Dir: filepath.Join(t.TempDir(), "ck"), Every: 1}
	_, err := Run(s)
	require.NoError(t, err)
	resumed := func(faults ...string) Spec {
		r := kindRun(t, "tp=2", faults...)
		r.Config.Steps, r.Resume = 4, checkpoint.Path(s.Save.Dir, 2)
		return r
	}
	healthy, _, _ := left(t, resumed(), trace.Off)
	for fault, changed := range map[string]int{
		"copy@layers.1.attn.*.m from-step=1":                           -1,
		"copy@layers.1.attn.*.m from-step=3 tp=1":                      -1,
		"copy@rng.dropout.tp from-rank=1 from-step=1 rank=0":           1,
		"copy@rng.dropout.tp from-rank=1 rank=0":                       1,
		"copy@rng.dropout.tp from-step=2":                              0,
		"drop@layers.1.attn.wq.dw step=4":                              -1,
		"set@layers.1.attn.wq value=inf micro=1 tp=1 phase=fwd step=4": 1,
		"draw@rng.dropout.tp step=4 tp=0":                              1,
		"seed@rng.dropout.tp":                                          2,
	} {
		got, _, n := left(t, resumed(fault), trace.Off)
		require.Equal(t, changed == 0, got == healthy, fault)
		if changed >= 0 {
			require.Equal(t, changed, n, fault)
		}
		again, _, _ := left(t, resumed(fault), trace.Op)
		require.Equal(t, got, again, fault)
	}
	require.NoError(t, os.RemoveAll(checkpoint.Path(s.Save.Dir, 1)))
	_, err = Run(resumed("copy@*.m from-step=1"))
	require.ErrorContains(t, err, "from-step: checkpoint")
	require.NotContains(t, err.Error(), "\n")
}

// No collective waits for ever, whichever ranks a fault of it selects.
func TestDroppedCollectivesGoOn(t *testing.T) {
	for _, layout := range []string{"dp=2,tp=2,ep=2", "pp=2,tp=2", "cp=2,dp=2"} {
		for _, rank := range []string{"", " rank=0", " rank=1", " tp=0", " dp=0"} {
			for _, overlap := range []bool{false, true} {
				s := kindRun(t, layout, "drop@*grads.* step=2"+rank, "drop@*.a2a* step=2"+rank, "drop@pipeline.*"+rank, "drop@*.gather* step=2"+rank, "drop@*.scatter* step=2"+rank, "drop@batch*"+rank, "drop@weights.*"+rank)
				s.Config.Cluster.Overlap, s.Checks, s.Config.Steps = overlap, Checks{}, 2
				o, err := Run(s)
				require.NoError(t, err)
				require.Positive(t, o.Faults[0].Changed)
			}
		}
	}
}
