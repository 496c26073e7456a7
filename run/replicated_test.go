package run

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/diff"
	"firstbit/parallel"
	"firstbit/trace"
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
			s.Config.Precision = []string{"fp16", "bf16", "nvfp4", "fp32"}[i%4]
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

// One trace shows where a replica goes its own way: at the Call that read what another replica's read and wrote something else, be it an element, a
// flag or an order of one rank. Of three replicas the one that differs is named, of two the second.
func TestOneTraceShowsWhereReplicasPart(t *testing.T) {
	for _, c := range []struct{ layout, fault, plan, path, class string }{
		{"dp=3", "flip@optim.layers.0.attn.wk phase=opt rank=0 step=2 elem=7 bit=3", "", "optim.layers.0.attn.wk", "hardware"},
		{"dp=2,tp=2", "flip@grad_norm.norm phase=opt rank=3 step=2 elem=0 bit=0", "", "grad_norm.norm", "hardware"},
		{"dp=2,ep=2,tp=2", "", "grad_norm.bucket.0 elements:seq rank=3 step=2", "grad_norm.bucket.0", "tuner"},
		{"dp=2", "", "", "", ""},
	} {
		l, err := parallel.ParseLayout(c.layout)
		require.NoError(t, err)
		s := overRanks(1, func(k *train.Config) {
			k.Optim.Replicated, k.Model.Pattern, k.Seq, k.Steps, k.Cluster.Bucket = true, "*E", 16, 3, 2000
		})
		s.Layout, s.Trace = l, trace.Options{Dir: filepath.Join(t.TempDir(), "t"), Level: trace.Op}
		if c.fault != "" {
			s.Faults = []string{c.fault}
		}
		if c.plan != "" {
			s.Plans = []string{c.plan}
		}
		_, err = Run(s)
		require.NoError(t, err, c)
		tr, err := trace.Open(s.Trace.Dir)
		require.NoError(t, err)
		r, err := diff.Replicas(tr)
		require.NoError(t, err)
		require.Equal(t, c.path == "", r.Identical, "%v", c)
		if r.Identical {
			continue
		}
		require.Equal(t, c.path, r.First.Path())
		require.Equal(t, 2, r.First.Iteration)
		require.Equal(t, "origin", r.First.Verdict)
		require.Equal(t, c.class, *r.Class)
	}
}

// Beside a run whose optimizer is sharded, a replicated one is another grouping, and no machine's fault.
func TestReplicatedBesideSharded(t *testing.T) {
	of := func(replicated bool) *trace.Trace {
		s := overRanks(2, func(c *train.Config) { c.Optim.Replicated, c.Steps, c.Optim.Clip = replicated, 2, 0 })
		return traced(t, s)
	}
	r, err := diff.Compare(of(false), of(true))
	require.NoError(t, err)
	require.Equal(t, "topology", *r.Class)
	require.Equal(t, "grads.bucket.0", r.First.Path())
	require.Contains(t, r.Evidence[1], "config.optim.replicated is false and true")
}
