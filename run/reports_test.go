package run

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/diff"
	"firstbit/parallel"
	"firstbit/trace"
	"firstbit/train"
)

// verdict is what a report must be read as.
type verdict struct{ verdict, class, path, phase, says string }

func (v verdict) of(t *testing.T, r *diff.Report, what string) {
	t.Helper()
	require.NotNil(t, r.First, what)
	class := ""
	if r.Class != nil {
		class = *r.Class
	}
	require.Equal(t, []string{v.verdict, v.class, v.path, v.phase}, []string{r.First.Verdict, class, r.First.Path(), r.First.Phase}, "%s: %v", what, r.Evidence)
	require.Contains(t, strings.Join(r.Evidence, "; "), v.says, what)
}

// report is what others reported of their trainers, in this one.
type report struct {
	source, layout string
	preset         train.Config
	change         func(*Spec)
	faults, plans  []string
	healthy        []string // plans of the other run
	resume         bool     // the faulty run continues after step 3 of 6; the other was never stopped

	pair  verdict  // healthy against faulty
	alone *verdict // the faulty run's trace alone; nil: it shows nothing
	two   *verdict // two faulty runs of other schedules; nil: they have the same bits
}

func lasting(n int, c train.Config) train.Config { c.Steps = n; return c }

func recomputing(s *Spec) { s.Config.Model.Recompute = true }

func inFlight(bytes int) func(*Spec) {
	return func(s *Spec) { s.Config.Cluster.Bucket, s.Config.Cluster.Overlap = bytes, true }
}

// What others reported is expressed by the grammar of faults and plans, and read from traces as what it is: from a healthy and a faulty
// run, from two faulty runs where they vary, and from one trace where that can show it. docs/reports.md lists them.
func TestReports(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing here is concurrent that other tests are not")
	}
	memory := func(path, phase, says string) verdict { return verdict{"memory", "memory", path, phase, says} }
	one := func(v verdict) *verdict { return &v }
	for _, c := range []report{
		{source: "DeepSpeed #7965", layout: "dp=2", preset: lasting(2, train.Pico()), change: inFlight(2048), faults: []string{"alias@grads.bucket.0 with=grads.bucket.1"},
			pair: memory("grads.bucket.0.wait", "opt", `"opt grads.bucket.1" wrote to its memory`), alone: one(memory("grads.bucket.0.wait", "opt", `"opt grads.bucket.1" wrote`)),
			two: one(memory("grads.bucket.0.wait", "opt", `"opt grads.bucket.1" wrote to its memory`))},
		{source: "DeepSpeed #5523", layout: "dp=4", preset: lasting(3, train.Pico()), change: inFlight(2048), faults: []string{"alias@layers.3.mlp.w2.grad with=layers.3.mlp.w1.grad"},
			pair: memory("grads.bucket.0", "opt", `"bwd layers.3.mlp.w1.grad" wrote`), alone: one(memory("grads.bucket.0", "opt", `"bwd layers.3.mlp.w1.grad" wrote`))},
		{source: "PyTorch #181723, TransformerEngine #2937", preset: lasting(3, train.Pico()), change: func(s *Spec) { s.Config.Micro = 3 }, faults: []string{"alias@layers.3.mlp.w1.grad with=layers.3.mlp.w1.dw"},
			pair: memory("layers.3.mlp.w1.grad", "bwd", `"bwd layers.3.mlp.w1.dw" wrote`), alone: one(memory("layers.3.mlp.w1.grad", "bwd", `"bwd layers.3.mlp.w1.dw" wrote`))},
		{source: "flash-linear-attention #945, #1228", preset: lasting(3, train.Tiny()), healthy: []string{"*.ssm.scan chunk=16"}, plans: []string{"*.ssm.scan chunk=8; steps:arrival"},
			pair: verdict{"origin", "tuner", "layers.0.ssm.scan", "fwd", "run B does not repeat itself"},
			two:  one(verdict{"origin", "arrival", "layers.0.ssm.scan", "fwd", "the plan depends on arrival"})},
		{source: "Triton #4217", preset: lasting(3, train.Pico()), faults: []string{"repeat@layers.3.mlp.w1.dw phase=bwd step=1"},
			pair: verdict{"origin", "tuner", "layers.3.mlp.w1.dw", "bwd", "its kernel ran 1 and 2 times: it was timed on its output"}},
		{source: "Megatron-DeepSpeed #276, in every step", layout: "tp=2", preset: lasting(3, train.Tiny()), change: func(s *Spec) { s.Config.Model.Dropout = 0.1 }, faults: []string{"draw@rng.dropout.tp tp=0"},
			pair: verdict{"origin", "state", "iterator.rng.dropout.tp", "fwd", "moves a random stream"}},
		{source: "Megatron-DeepSpeed #276, on a restart", layout: "tp=2", preset: lasting(6, train.Tiny()), change: func(s *Spec) { s.Config.Model.Dropout = 0.1 }, faults: []string{"draw@rng.dropout.tp rank=0 when=after"}, resume: true,
			pair: verdict{"restore", "state", "layers.0.dropout.mask", "fwd", "input stream"}},
		{source: "torchtitan #2387, #4054", layout: "tp=2", preset: lasting(2, train.Tiny()), faults: []string{"drop@grads.bucket.*.sequence"},
			pair:  verdict{"origin", "control", "grads.bucket.0.sequence", "opt", "inputs of all members are equal"},
			alone: one(verdict{"narrow", "memory", "grads.bucket.0.sequence", "opt", "is not what rank 0 has"})},
		{source: "Megatron-LM #5976", preset: lasting(6, train.Tiny()), faults: []string{"set@optim.step value=4"}, resume: true,
			pair: verdict{"restore", "state", "optim.embed.w", "opt", "scalar step"}},
		{source: "slime #1546, in a restore", preset: lasting(6, train.Tiny()), faults: []string{"set@lr.position value=6"}, resume: true,
			pair: verdict{"restore", "state", "optim.embed.w", "opt", "scalar lr"}},
		{source: "slime #1546, after it", preset: lasting(6, train.Tiny()), faults: []string{"repeat@lr.position step=4"}, resume: true,
			pair:  verdict{"origin", "state", "lr.position", "opt", "did so again"},
			alone: one(verdict{"origin", "state", "lr.position", "opt", "did so again"})},
		{source: "nvidia-resiliency-ext #376, Lightning #21079", preset: lasting(6, train.Tiny()), faults: []string{"copy@layers.1.* from-step=4"}, resume: true,
			pair: verdict{"restore", "state", "layers.1.norm", "fwd", "input w was written before the checkpoint"}},
		{source: "NeMo RL #4183", preset: lasting(6, train.Tiny()), faults: []string{"copy@*.m from-step=2", "copy@*.v from-step=2"}, resume: true,
			pair: verdict{"restore", "state", "optim.embed.w", "opt", "input m was written before the checkpoint"}},
		{source: "XLA #37902", preset: lasting(2, train.Tiny()), healthy: []string{"loss_sum tokens:lanes(8)"}, plans: []string{"loss_sum tokens:blocked(16)"},
			pair: verdict{"origin", "tuner", "loss_sum", "fwd", "plans differ"}},
		{source: "Automodel #3156", preset: lasting(3, train.Tiny()), change: recomputing, plans: []string{"*.router.logits k:arrival"},
			pair:  verdict{"origin", "tuner", "layers.2.moe.router.logits", "fwd", "run B does not repeat itself"},
			alone: one(verdict{"origin", "arrival", "mtp.0.layers.1.moe.router.logits", "rec", "not what the forward made"}),
			two:   one(verdict{"origin", "arrival", "layers.2.moe.router.logits", "fwd", "the plan depends on arrival"})},
		{source: "Automodel #3247", preset: lasting(3, train.Tiny()), change: recomputing, faults: []string{"repeat@*.moe.router.tokens"},
			pair:  verdict{"origin", "state", "layers.2.moe.router.tokens", "fwd", "it updates tokens, and did so again"},
			alone: one(verdict{"origin", "state", "layers.2.moe.router.tokens", "fwd", "its kernel ran 2 times: it updates tokens"})},
	} {
		t.Run(c.source, func(t *testing.T) {
			t.Parallel()
			dir, saved := t.TempDir(), ""
			spec := func(name string, schedule uint64) Spec {
				s := Spec{Config: c.preset, Schedule: device.Schedule{Seed: schedule}, Checks: Checks{Strict: true}, Trace: trace.Options{Dir: filepath.Join(dir, name), Level: trace.Op}}
				if c.layout != "" {
					var err error
					s.Layout, err = parallel.ParseLayout(c.layout)
					require.NoError(t, err)
				}
				if c.change != nil {
					c.change(&s)
				}
				return s
			}
			run := func(s Spec) *trace.Trace {
				o, err := Run(s)
				require.NoError(t, err)
				require.NoError(t, o.Missed)
				return opened(t, s.Trace.Dir)
			}
			healthy := spec("healthy", 1)
			healthy.Plans = c.healthy
			if c.resume {
				saved = filepath.Join(dir, "saved")
				healthy.Save = Save{Dir: saved, Every: 1}
			}
			faulty := func(name string, schedule uint64) Spec {
				s := spec(name, schedule)
				s.Faults, s.Plans = c.faults, c.plans
				if c.resume {
					s.Resume = filepath.Join(saved, "step000003")
				}
				return s
			}
			a, b := run(healthy), run(faulty("faulty", 1))
			r, err := diff.Compare(a, b)
			require.NoError(t, err)
			c.pair.of(t, r, "pair")
			alone, err := diff.Replicas(b)
			require.NoError(t, err)
			if c.alone == nil {
				require.True(t, alone.Identical, "%+v %v", alone.First, alone.Evidence)
			} else {
				c.alone.of(t, alone, "alone")
			}
			r, err = diff.Compare(b, run(faulty("again", 2)))
			require.NoError(t, err)
			if c.two == nil {
				require.True(t, r.Identical, "%+v %v", r.First, r.Evidence)
			} else {
				c.two.of(t, r, "two faulty runs")
			}
			h, err := diff.Replicas(a)
			require.NoError(t, err)
			require.True(t, h.Identical, "healthy alone")
		})
	}
}

func opened(t *testing.T, dir string) *trace.Trace {
	t.Helper()
	tr, err := trace.Open(dir)
	require.NoError(t, err)
	return tr
}
