package run

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/diff"
	"firstbit/parallel"
	"firstbit/trace"
	"firstbit/train"
)

var second = trace.Set{{Lo: 2, Hi: 2}}

// laidOut is a small run of everything on a layout.
func laidOut(t *testing.T, layout string, change func(*train.Config)) Spec {
	t.Helper()
	c := train.Tiny()
	c.Steps, c.Batch, c.Micro, c.Seq = 2, 2, 2, 16
	if change != nil {
		change(&c)
	}
	l, err := parallel.ParseLayout(layout)
	require.NoError(t, err)
	return Spec{Config: c, Layout: l, Kept: Kept{Digest: true}}
}

// Layouts with each axis and several together, and variants of a run. Of the matrix every variant is run on every layout, otherwise one.
var (
	replicaLayouts  = []string{"dp=2", "tp=2", "cp=2", "pp=2", "ep=2", "dp=2,tp=2", "dp=2,tp=2,pp=2,ep=2", "cp=2,tp=2,ep=2", "pp=2,vpp=2", "tp=2,etp=2"}
	replicaVariants = []variant{
		{"fp32", nil},
		{"bf16, tied, dropout and jitter", func(c *train.Config) {
			c.Precision, c.Model.Tied, c.Model.Dropout, c.Model.MoE.Jitter = "bf16", true, 0.1, 0.1
		}},
		{"fp8, delayed", func(c *train.Config) { c.Precision, c.Quant.Scaling = "fp8", "delayed" }},
		{"nvfp4, recomputing", func(c *train.Config) { c.Precision, c.Model.Recompute = "nvfp4", true }},
	}
)

type variant struct {
	name   string
	change func(*train.Config)
}

// The replicas of a healthy run are equal on every layout, whatever is copied there.
func TestReplicasOfEveryLayout(t *testing.T) {
	for i, layout := range replicaLayouts {
		for j, v := range replicaVariants {
			if !*matrix && j != (i+1)%len(replicaVariants) {
				continue
			}
			t.Run(layout+", "+v.name, func(t *testing.T) {
				if testing.Short() && layout != "dp=2,tp=2,pp=2,ep=2" {
					t.Skip("one layout is enough for the race detector")
				}
				s := laidOut(t, layout, v.change)
				s.Trace.Steps = second // which shows what the first has left
				r, err := diff.Replicas(traced(t, s))
				require.NoError(t, err)
				require.True(t, r.Identical, "%+v %v", r.First, r.Evidence)
			})
		}
	}
}

// One copy of many that changed in memory is found, of whatever is copied; what is a rank's own is nobody's copy.
func TestOneCopyOfMany(t *testing.T) {
	for _, c := range []struct{ layout, fault, state, shared string }{
		{"tp=2", "flip@optim.layers.1.norm.w rank=1 step=1 phase=opt out=master at=rest elem=3 bit=20", "layers.1.norm.w", ""},
		{"tp=2", "flip@optim.layers.2.moe.router.w rank=1 step=1 phase=opt out=m at=rest elem=3 bit=20", "layers.2.moe.router.w.m", ""},
		{"dp=3,tp=2", "flip@weights.bucket.0 rank=2 step=1 phase=opt out=layers.1.attn.wq at=rest elem=3 bit=20", "layers.1.attn.wq", "most of 3"},
		{"dp=4,ep=2", "flip@weights.bucket.4 rank=3 step=1 phase=opt out=layers.2.moe.experts.w1 at=rest elem=3 bit=20", "layers.2.moe.experts.w1", ""},
		{"pp=2", "flip@optim.embed.w rank=1 step=1 phase=opt out=master at=rest elem=3 bit=20", "embed.w", ""},
		{"dp=3,tp=2", "flip@quant.layers.1.attn.wq.dgrad rank=2 step=1 phase=opt out=scales at=rest elem=3 bit=2", "layers.1.attn.wq.dgrad.scales", "most of 3"},
		{"tp=2", "flip@optim.layers.1.attn.wq rank=1 step=1 phase=opt out=master at=rest elem=3 bit=20", "", ""},
		{"ep=2", "flip@optim.layers.2.moe.experts.w1 rank=1 step=1 phase=opt out=master at=rest elem=3 bit=20", "", ""},
	} {
		t.Run(c.layout+" "+c.fault, func(t *testing.T) {
			if testing.Short() {
				t.Skip("the runs are those of TestFaultsAreFoundThroughEveryAxis")
			}
			s := laidOut(t, c.layout, func(config *train.Config) {
				if strings.Contains(c.fault, "quant.") {
					config.Precision = "mxfp8"
				}
			})
			s.Faults = []string{c.fault}
			s.Trace.Steps = second
			r, err := diff.Replicas(traced(t, s))
			require.NoError(t, err)
			if c.state == "" {
				require.True(t, r.Identical, "a weight that no other rank has: %+v", r.First)
				return
			}
			require.False(t, r.Identical)
			require.Equal(t, "state."+c.state, r.First.Path())
			require.Equal(t, faultOf(t, c.fault), r.First.Rank)
			require.Equal(t, "outside-window", r.First.Verdict)
			require.Contains(t, strings.Join(r.Evidence, "; "), c.shared)
		})
	}
}

// localizedOn runs a healthy run and one with a fault, and localises where they part, coarse to fine.
func localizedOn(t *testing.T, s Spec, fault string) *diff.Report {
	t.Helper()
	dir := t.TempDir()
	r, err := diff.Localize(func(side int, w diff.Window) (*trace.Trace, error) {
		run := s
		run.Until = w.Step
		run.Trace = trace.Options{Dir: filepath.Join(dir, fmt.Sprintf("%s-%d", w.Level, side)), Level: w.Level, Dump: w.Dump}
		if w.Step > 0 {
			run.Trace.Steps = trace.Set{{Lo: w.Step, Hi: w.Step}}
		}
		if side == 1 {
			run.Faults = []string{fault}
		}
		o, err := Run(run)
		if err != nil {
			return nil, err
		}
		if side == 1 && o.Faults[0].Changed != 1 {
			t.Errorf("%s changes %d Calls", fault, o.Faults[0].Changed)
		}
		return trace.Open(run.Trace.Dir)
	}, nil)
	require.NoError(t, err)
	return r
}

// axisFaults are faults of one rank on each axis: of gathers and scatters of tensor parallelism, messages of pipelines and of parts of a
// sequence, all-to-alls of experts, and of Calls between them.
var axisFaults = []struct{ layout, path, where string }{
	{"tp=2", "layers.3.mlp.w1", "rank=1 elem=6"},
	{"tp=2", "layers.2.moe.router.logits", "rank=1 micro=1"},
	{"tp=2", "layers.1.attn.wq.dx", "rank=0 phase=bwd"},
	{"tp=2", "layers.3.mlp.w2.scatter", "rank=1"},
	{"tp=2", "layers.1.attn.x.gather", "rank=0"},
	{"pp=2", "layers.1.y", "rank=0 micro=1"},
	{"pp=2", "layers.2.dx", "rank=1 phase=bwd micro=1"},
	{"pp=2", "pipeline.chunk.1.recv", "rank=1"},
	{"pp=2,vpp=2", "layers.2.dx", "rank=0 phase=bwd"},
	{"ep=2", "layers.2.moe.dispatch", "rank=1"},
	{"ep=2", "layers.2.moe.experts.w2", "rank=0"},
	{"ep=2", "layers.2.moe.combine.a2a", "rank=1"},
	{"ep=2", "layers.4.moe.experts.w1.dx", "rank=1 phase=bwd"},
	{"cp=2", "layers.0.ssm.scan", "rank=0 out=last"},
	{"cp=2", "layers.0.ssm.conv.tail", "rank=0"},
	{"cp=2", "layers.0.ssm.state.recv", "rank=0 phase=bwd"},
	{"cp=2", "layers.1.attn.wk", "rank=1"},
	{"dp=2,tp=2,pp=2,ep=2", "layers.3.mlp.w1", "rank=5 elem=2"},
	{"cp=2,tp=2,ep=2", "layers.2.moe.router.logits", "rank=3"},
}

func axisFault(path, where string) string {
	if !strings.Contains(where, "elem=") {
		where += " elem=3"
	}
	return fmt.Sprintf("flip@%s step=2 bit=30 %s", path, where)
}

// One rank's fault is found on that rank, in that Call, through whatever carries it to the others. The faults of carriers are their own.
func TestFaultsAreFoundThroughEveryAxis(t *testing.T) {
	healthy := map[string]*trace.Trace{}
	for i, c := range axisFaults {
		t.Run(c.layout+" "+c.path, func(t *testing.T) {
			if testing.Short() && i%5 > 0 || !*matrix && healthy[c.layout] != nil {
				t.Skip("one fault of an axis is enough for the race detector, one of a layout without -matrix")
			}
			fault, s := axisFault(c.path, c.where), laidOut(t, c.layout, nil)
			s.Trace.Steps = second
			if healthy[c.layout] == nil {
				healthy[c.layout] = traced(t, s)
			}
			s.Faults = []string{fault}
			r, err := diff.Compare(healthy[c.layout], traced(t, s))
			require.NoError(t, err)
			foundAlone(t, r, c.path, faultOf(t, fault))
		})
	}
}

// foundAlone demands that one rank's Call is the one root of what two runs differ in.
func foundAlone(t *testing.T, r *diff.Report, path string, rank int) {
	t.Helper()
	require.False(t, r.Identical)
	require.Equal(t, path, r.First.Path(), "%+v", r.Evidence)
	require.Equal(t, rank, r.First.Rank)
	require.Equal(t, "origin", r.First.Verdict)
	require.Equal(t, "hardware", *r.Class)
	require.Equal(t, "one-rank", *r.Pattern)
	require.Len(t, r.Roots, 1, "%+v", r.Roots)
	for _, v := range r.Ranks {
		require.Contains(t, []string{"downstream", "identical", "origin"}, v.Verdict, "%+v", v)
		require.Equal(t, v.Rank == rank, v.Verdict == "origin")
	}
}

// From coarse to fine, over ranks: the metrics give the step, and the Call's bytes the element.
func TestFaultsAreLocalisedOverRanks(t *testing.T) {
	for _, c := range axisFaults {
		if !*matrix && c.path != "layers.2.moe.combine.a2a" {
			continue
		}
		t.Run(c.layout+" "+c.path, func(t *testing.T) {
			t.Parallel()
			fault := axisFault(c.path, c.where)
			r := localizedOn(t, laidOut(t, c.layout, nil), fault)
			foundAlone(t, r, c.path, faultOf(t, fault))
			require.True(t, r.Confirmed)
			require.Equal(t, 1, r.Bytes.Count)
		})
	}
}

// A fault that sends tokens to other experts changes how many rows every Call of theirs has, and is the one root of that.
func TestOtherRoutesHaveOneRoot(t *testing.T) {
	for _, c := range []struct{ layout, precision, fault string }{
		{"ep=2,etp=2,dp=4", "fp32", "flip@layers.2.moe.router.logits step=2 rank=1 micro=1 elem=3 bit=30"},
		{"ep=2", "nvfp4", "flip@layers.2.moe.router.logits step=2 rank=1 micro=1 elem=3 bit=30"},
	} {
		s := laidOut(t, c.layout, func(config *train.Config) { config.Precision = c.precision })
		s.Trace.Steps = second
		healthy := traced(t, s)
		s.Faults = []string{c.fault}
		r, err := diff.Compare(healthy, traced(t, s))
		require.NoError(t, err)
		require.Equal(t, "layers.2.moe.router.logits", r.First.Path(), c.layout)
		require.Len(t, r.Roots, 1, "%s: %+v", c.layout, r.Roots)
	}
}

// Under the canonical recipe every layout has the bits of one rank in whatever both have whole; under the fixed one not.
func TestLayoutsShareTheirBits(t *testing.T) {
	if testing.Short() {
		t.Skip("the runs are those of TestReplicasOfEveryLayout")
	}
	run := func(layout string, micro int, recipe string, faults ...string) *trace.Trace {
		s := laidOut(t, layout, func(c *train.Config) { c.Batch, c.Micro, c.Model.MoE.Aux = 1, micro, "sequence" })
		s.Recipe, s.Faults = recipe, faults
		return traced(t, s)
	}
	compare := func(a, b *trace.Trace) *diff.Report {
		r, err := diff.Layouts(a, b, nil)
		require.NoError(t, err)
		return r
	}
	one := run("dp=1", 2, "canonical")
	traces := map[string]*trace.Trace{}
	for layout, least := range map[string]int{"tp=2": 250, "cp=2": 250, "pp=2": 1000, "dp=2": 250, "ep=2": 250, "dp=2,tp=2,pp=2,ep=2": 150} { // order reaches nothing
		l, err := parallel.ParseLayout(layout)
		require.NoError(t, err)
		traces[layout] = run(layout, 2/l.DP, "canonical")
		r := compare(one, traces[layout])
		require.True(t, r.Identical, "%s: %+v", layout, r.First)
		require.Greater(t, r.Records, least, layout)
		require.Positive(t, r.LeftOut, layout)
	}
	require.True(t, compare(traces["tp=2"], traces["dp=2"]).Identical)

	r := compare(one, run("tp=2", 2, "fixed"))
	require.False(t, r.Identical)
	require.NotNil(t, r.First)
	r = compare(one, run("tp=2", 2, "canonical", "flip@layers.2.moe.router.share rank=1 micro=1 step=2 elem=3 bit=30"))
	require.False(t, r.Identical, "what follows from a fault on the second rank")
	require.Equal(t, 2, r.First.Iteration)
	_, err := diff.Compare(one, traces["tp=2"])
	require.ErrorContains(t, err, "layouts differ")
}

// With one side of a message traced, the reader says whom to trace; one trace of a run tells what changed on its way.
func TestMessagesOfOneRun(t *testing.T) {
	only := func(faults ...string) *trace.Trace {
		s := laidOut(t, "pp=2", nil)
		s.Faults = faults
		s.Trace = trace.Options{Dir: filepath.Join(t.TempDir(), "t"), Level: trace.Op, Ranks: trace.Set{{Lo: 1, Hi: 1}}}
		_, err := Run(s)
		require.NoError(t, err)
		tr, err := trace.Open(s.Trace.Dir)
		require.NoError(t, err)
		return tr
	}
	r, err := diff.Compare(only(), only("flip@layers.0.y rank=0 step=2 elem=3 bit=30"))
	require.NoError(t, err)
	require.Equal(t, "unresolved", r.First.Verdict)
	require.Equal(t, "pipeline.chunk.1.recv", r.First.Path())
	require.Contains(t, r.Evidence[0], "trace rank 0")

	s := laidOut(t, "pp=2", nil)
	s.Faults = []string{"flip@pipeline.chunk.0.recv rank=0 phase=bwd step=2 micro=1 elem=3 bit=30"}
	r, err = diff.Replicas(traced(t, s))
	require.NoError(t, err)
	require.Equal(t, "origin", r.First.Verdict)
	require.Equal(t, 0, r.First.Rank)
	require.Equal(t, "pipeline.chunk.0.recv", r.First.Path())
}
