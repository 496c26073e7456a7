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

// inParts is the trace of a run with sums that add up over its pieces.
func inParts(t *testing.T, s Spec) *trace.Trace {
	t.Helper()
	var tr trace.Trace
	s.Trace.Level, s.Trace.Parts = trace.Op, true
	if s.Trace.Dump == "" {
		s.Trace.Into = &tr
	} else {
		s.Trace.Dir = filepath.Join(t.TempDir(), "t")
	}
	o, err := Run(s)
	require.NoError(t, err)
	for _, f := range o.Faults {
		require.Equal(t, 1, f.Changed, f.Spec)
	}
	if s.Trace.Into != nil {
		return &tr
	}
	read, err := trace.Open(s.Trace.Dir)
	require.NoError(t, err)
	return read
}

func comparedParts(t *testing.T, a, b *trace.Trace, within string) *diff.Report {
	t.Helper()
	var w *diff.Within
	if within != "" {
		var err error
		w, err = diff.ParseWithin(within)
		require.NoError(t, err)
	}
	r, err := diff.Layouts(a, b, w)
	require.NoError(t, err)
	return r
}

// Under the canonical recipe the pieces of every layout add up to what one rank has, and one flipped bit in one piece is named.
func TestPartsOfEveryLayout(t *testing.T) {
	run := func(t *testing.T, layout, precision string, faults ...string) *trace.Trace {
		l, err := parallel.ParseLayout(layout)
		require.NoError(t, err)
		s := laidOut(t, layout, func(c *train.Config) {
			c.Steps, c.Batch, c.Micro, c.Precision, c.Model.MoE.Aux = 1, 1, 2/l.DP, precision, "sequence"
		})
		s.Recipe, s.Faults = "canonical", faults
		return inParts(t, s)
	}
	one := map[string]*trace.Trace{"fp32": run(t, "dp=1", "fp32"), "bf16": run(t, "dp=1", "bf16")}
	for _, c := range []struct {
		layout, precision string
		records           int
		faults            [][2]string // and the Call that is named
	}{
		{"tp=2", "fp32", 550, [][2]string{
			{"flip@layers.3.mlp.w1 micro=1 rank=1 elem=5 bit=20", "layers.3.mlp.w1"},
			{"flip@layers.3.mlp.w2 micro=1 rank=1 elem=5 bit=20", "layers.3.mlp.w2"}, // a part of a sum
			{"flip@layers.3.mlp.x.gather rank=1 elem=5 bit=20", "layers.3.mlp.x.gather"},
			{"flip@layers.1.attn.attention.dx out=dk phase=bwd rank=1 elem=3 bit=22", "layers.1.attn.attention.dx"},
			{"flip@layers.3.norm.dw phase=bwd micro=1 rank=1 elem=5 bit=20", "layers.3.norm.dw"},
			{"flip@layers.3.mlp.w1.dw phase=bwd micro=1 rank=1 elem=5 bit=20", "layers.3.mlp.w1.dw"},
			{"flip@optim.layers.3.mlp.w1 phase=opt rank=1 elem=5 bit=20", "optim.layers.3.mlp.w1"},
		}},
		{"cp=2", "fp32", 550, [][2]string{
			{"flip@layers.0.ssm.scan rank=1 elem=5 bit=20", "layers.0.ssm.scan"},
			{"flip@layers.0.ssm.state.recv rank=1 elem=5 bit=25", "layers.0.ssm.state.recv"},
			{"flip@layers.1.attn.k.gather rank=1 elem=5 bit=25", "layers.1.attn.k.gather"},
		}},
		{"dp=2", "fp32", 700, [][2]string{{"flip@layers.1.norm rank=1 elem=5 bit=25", "layers.1.norm"}}},
		{"pp=2", "fp32", 800, nil},
		{"ep=2", "fp32", 700, nil},
		{"tp=2", "bf16", 550, nil},
		{"tp=2,cp=2", "bf16", 550, nil},
		{"dp=2,tp=2,pp=2,ep=2", "fp32", 500, nil},
	} {
		t.Run(c.layout+" "+c.precision, func(t *testing.T) {
			t.Parallel()
			healthy := run(t, c.layout, c.precision)
			for _, pair := range [][2]*trace.Trace{{one[c.precision], healthy}, {healthy, one[c.precision]}} {
				r := comparedParts(t, pair[0], pair[1], "")
				require.True(t, r.Identical, "%+v %v", r.First, r.Evidence)
				require.Greater(t, r.Records, c.records)
			}
			for _, f := range c.faults {
				broken := run(t, c.layout, c.precision, f[0])
				for _, pair := range [][2]*trace.Trace{{one[c.precision], broken}, {broken, one[c.precision]}} {
					r := comparedParts(t, pair[0], pair[1], "")
					require.False(t, r.Identical, f[0])
					require.Equal(t, f[1], r.First.Path(), "%s %v", f[0], r.Evidence)
					require.Equal(t, "origin", r.First.Verdict, "%s %v", f[0], r.Evidence)
				}
			}
		})
	}
}

// Batches that are cut into other microbatches are compared over a step.
func TestPartsOfOtherBatches(t *testing.T) {
	run := func(layout string, batch, micro int, plans ...string) *trace.Trace {
		s := laidOut(t, layout, func(c *train.Config) {
			c.Steps, c.Batch, c.Micro, c.Model.MoE.Aux = 1, batch, micro, "sequence"
		})
		s.Recipe, s.Plans = "canonical", plans
		return inParts(t, s)
	}
	whole, cut := run("dp=1", 4, 1), run("tp=2", 1, 4)
	r := comparedParts(t, whole, cut, "")
	require.True(t, r.Identical, "%+v %v", r.First, r.Evidence)
	require.Greater(t, r.Records, 300)
	require.True(t, comparedParts(t, run("dp=1", 2, 2), whole, "").Identical)
	byShape := "layers.*.attn.wq phase=fwd rows=64- k:splitk(4)/fp32"
	r = comparedParts(t, run("dp=1", 4, 1, byShape), run("dp=1", 2, 2, byShape), "")
	require.Equal(t, []string{"origin", "layers.1.attn.wq"}, []string{r.First.Verdict, r.First.Path()}, "a plan by the number of rows: %v", r.Evidence)
}

// By the fixed recipe layouts round otherwise, and bits name the first Call that does; what is further apart has another cause.
func TestPartsThatRoundOtherwise(t *testing.T) {
	pair := func(layout string, change func(*train.Config), plans ...string) (a, b *trace.Trace) {
		run := func(layout string) *trace.Trace {
			s := laidOut(t, layout, func(c *train.Config) {
				c.Steps = 1
				change(c)
			})
			if s.Plans = plans; s.Config.Model.Dropout > 0 {
				s.Trace.Dump = "*"
			}
			return inParts(t, s)
		}
		return run("dp=1"), run(layout)
	}
	for _, c := range []struct {
		layout       string
		change       func(*train.Config)
		plans        []string
		bits, within string
	}{
		{"tp=2", func(c *train.Config) { c.Model.Dropout = 0.1 }, nil, "layers.0.ssm.out_proj", "layers.0.dropout.mask"},
		{"tp=2", func(*train.Config) {}, nil, "layers.0.ssm.out_proj", ""},
		{"cp=2", func(c *train.Config) { c.Seq = 32 }, nil, "loss_sum", ""},
		{"cp=2", func(c *train.Config) { c.Seq, c.Batch = 48, 1 }, []string{"*.ssm.scan* chunk=16"}, "layers.0.ssm.scan", ""},
	} {
		a, b := pair(c.layout, c.change, c.plans...)
		for _, p := range [][2]*trace.Trace{{a, b}, {b, a}} {
			r := comparedParts(t, p[0], p[1], "")
			require.Equal(t, c.bits, r.First.Path())
			require.Equal(t, "origin", r.First.Verdict, "%s %v", c.bits, r.Evidence)
			r = comparedParts(t, p[0], p[1], "rtol=1e-3")
			if c.within == "" { // nothing was dumped
				require.Equal(t, c.bits, r.First.Path())
				require.Contains(t, r.Evidence[0], "unconfirmed")
				continue
			}
			require.Equal(t, c.within, r.First.Path())
			require.Equal(t, "origin", r.First.Verdict, r.Evidence)
		}
	}
}
