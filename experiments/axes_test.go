package experiments

import (
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
	c.Steps, c.Micro, c.Seq = 2, 2, 16
	if change != nil {
		change(&c)
	}
	l, err := parallel.ParseLayout(layout)
	require.NoError(t, err)
	return Spec{Config: c, Layout: l, Digest: true}
}

// The replicas of a healthy run are equal on every layout, whatever is copied there.
func TestReplicasOfEveryLayout(t *testing.T) {
	for _, layout := range []string{"dp=2", "tp=2", "cp=2", "pp=2", "ep=2", "dp=2,tp=2", "dp=2,tp=2,pp=2,ep=2", "cp=2,tp=2,ep=2", "pp=2,vpp=2", "tp=2,etp=2"} {
		for name, change := range map[string]func(*train.Config){
			"fp32": nil,
			"bf16, tied, dropout and jitter": func(c *train.Config) {
				c.Precision, c.Model.Tied, c.Model.Dropout, c.Model.MoE.Jitter = "bf16", true, 0.1, 0.1
			},
		} {
			t.Run(layout+", "+name, func(t *testing.T) {
				r, err := diff.Replicas(traced(t, laidOut(t, layout, change)))
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
		{"dp=3,tp=2", "flip@weights.bucket.0.unpack rank=2 step=1 phase=opt out=layers.1.attn.wq at=rest elem=3 bit=20", "layers.1.attn.wq", "most of 3"},
		{"dp=4,ep=2", "flip@weights.bucket.4.unpack rank=3 step=1 phase=opt out=layers.2.moe.experts.w1 at=rest elem=3 bit=20", "layers.2.moe.experts.w1", ""},
		{"pp=2", "flip@optim.embed.w rank=1 step=1 phase=opt out=master at=rest elem=3 bit=20", "embed.w", ""},
		{"tp=2", "flip@optim.layers.1.attn.wq rank=1 step=1 phase=opt out=master at=rest elem=3 bit=20", "", ""},
		{"ep=2", "flip@optim.layers.2.moe.experts.w1 rank=1 step=1 phase=opt out=master at=rest elem=3 bit=20", "", ""},
	} {
		t.Run(c.layout+" "+c.fault, func(t *testing.T) {
			s := laidOut(t, c.layout, nil)
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
