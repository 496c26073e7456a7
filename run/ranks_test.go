package run

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/diff"
	"firstbit/parallel"
	"firstbit/trace"
	"firstbit/train"
)

// overRanks is a small run of everything over ranks.
func overRanks(n int, change func(*train.Config)) Spec {
	c := train.Tiny()
	c.Steps, c.Batch, c.Seq = 2, 1, 8
	c.Model.Width, c.Model.Heads, c.Model.Hidden, c.Model.SSM.Heads, c.Model.SSM.State = 16, 2, 32, 2, 8
	c.Model.MoE.Experts, c.Model.MoE.Hidden, c.Model.MoE.SharedHidden = 4, 32, 16
	c.Cluster.Bucket = 3000
	if change != nil {
		change(&c)
	}
	return Spec{Config: c, Layout: parallel.Layout{DP: n}, Kept: Kept{Digest: true, Load: true}}
}

// bits is what a run must repeat.
func bits(t *testing.T, s Spec) (steps []train.Result, load []Load) {
	t.Helper()
	o, err := Run(s)
	require.NoError(t, err)
	require.Len(t, o.Steps, s.Config.Steps)
	return o.Steps, o.Load
}

// The fixed recipe repeats bit for bit under any schedule, on any number of processors, watched or not.
func TestRanksRepeat(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for name, change := range map[string]func(*train.Config){
		"fp32": nil,
		"bf16, microbatches, dropout and jitter": func(c *train.Config) {
			c.Precision, c.Micro, c.Model.Dropout, c.Model.MoE.Jitter = "bf16", 2, 0.1, 0.1
		},
		"tied, recomputed, a bucket a parameter": func(c *train.Config) {
			c.Model.Tied, c.Model.Recompute, c.Cluster.Bucket = true, true, 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := overRanks(5, change)
			s.Schedule = device.Schedule{Seed: 1}
			steps, load := bits(t, s)
			again := func(what string, s Spec) {
				steps2, load2 := bits(t, s)
				require.Equal(t, steps, steps2, what)
				require.Equal(t, load, load2, what)
			}
			for _, procs := range []int{1, 4} {
				runtime.GOMAXPROCS(procs)
				s.Schedule.Seed = uint64(procs)
				again("on other processors under another schedule", s)
			}
			for _, level := range []trace.Level{trace.Metrics, trace.Kernel} {
				s.Trace = trace.Options{Dir: filepath.Join(t.TempDir(), "t"), Level: level}
				again("traced", s)
			}
			s.Trace = trace.Options{}
			s.Config.Seed++
			other, _ := bits(t, s)
			require.NotEqual(t, steps[0].State, other[0].State, "the comparison must be able to fail")
		})
	}
}

// What depends on arrival repeats under its own schedule alone: the order in which ranks come is none of the machine's.
func TestArrivingRanksReplay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, change := range []func(*Spec){
		func(s *Spec) { s.Recipe = "fast" },
		func(s *Spec) { s.Plans = []string{"grads.bucket.? ranks:arrival"} },
	} {
		s := overRanks(9, nil)
		change(&s)
		first, _ := bits(t, s)
		runtime.GOMAXPROCS(1)
		second, _ := bits(t, s)
		require.Equal(t, first, second)
		s.Schedule.Seed++
		other, _ := bits(t, s)
		require.NotEqual(t, first, other)
	}
}

// The fingerprint of a run's state covers every rank's own moments.
func TestStateCoversEveryRank(t *testing.T) {
	const n = 4
	seen := map[string]int{}
	for rank := range n + 1 { // the last is nobody's
		s := overRanks(n, nil)
		fault := "flip@optim.* phase=opt step=2 out=v bit=0 at=rest rank=" + string(rune('0'+rank))
		s.Faults = []string{fault}
		steps, _ := bits(t, s)
		if last, ok := seen[steps[1].State]; ok {
			t.Fatalf("flips on ranks %d and %d leave the same state", last, rank)
		}
		seen[steps[1].State] = rank
		s.Faults = nil
		healthy, _ := bits(t, s)
		require.Equal(t, healthy[0], steps[0])
		require.Equal(t, healthy[1].Metrics, steps[1].Metrics, "the step itself is over")
		require.Equal(t, rank == n, healthy[1].State == steps[1].State)
	}
}

// traced is the trace of a run.
func traced(t *testing.T, s Spec) *trace.Trace {
	t.Helper()
	s.Trace = trace.Options{Dir: filepath.Join(t.TempDir(), "t"), Level: trace.Op, Steps: s.Trace.Steps}
	o, err := Run(s)
	require.NoError(t, err)
	for _, f := range o.Faults {
		require.Equal(t, 1, f.Changed, "%s changes one Call of one rank", f.Spec)
	}
	tr, err := trace.Open(s.Trace.Dir)
	require.NoError(t, err)
	require.Len(t, tr.Ranks, s.Layout.World())
	return tr
}

// One member's fault is that member's: its Call is the root, and wherever a collective carries the bits, the others are
// downstream of it.
func TestOneMembersFaultIsItsOwn(t *testing.T) {
	healthy := traced(t, overRanks(4, nil))
	for i, c := range []struct{ fault, path, verdict string }{
		{"flip@layers.1.attn.wq.dw rank=1 step=2 phase=bwd elem=3 bit=30", "layers.1.attn.wq.dw", "origin"},
		{"flip@batch rank=3 step=2 elem=3 bit=2", "batch", "origin"},
		{"flip@layers.0.ssm.conv.act rank=2 step=1 elem=9 bit=30", "layers.0.ssm.conv.act", "origin"},
		{"flip@grads.bucket.1 rank=1 step=2 phase=opt bit=29", "grads.bucket.1", "origin"},
		{"flip@optim.embed.w rank=3 step=2 phase=opt out=master bit=22", "optim.embed.w", "origin"},
		{"flip@optim.embed.w rank=3 step=1 phase=opt out=m bit=30 at=rest", "optim.embed.w", "memory"},
		{"flip@weights.bucket.0 rank=0 step=1 phase=opt bit=29 at=rest", "", "memory"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			if testing.Short() && i > 0 {
				t.Skip("one fault is enough for the race detector")
			}
			s := overRanks(4, nil)
			s.Faults = []string{c.fault}
			r, err := diff.Compare(healthy, traced(t, s))
			require.NoError(t, err)
			require.False(t, r.Identical)
			fault := faultOf(t, c.fault)
			require.Equal(t, fault, r.First.Rank, "%+v", r.First)
			require.Equal(t, c.verdict, r.First.Verdict, "%+v", r.First)
			if c.path != "" {
				require.Equal(t, c.path, r.First.Path())
			}
			for _, rank := range r.Ranks {
				if rank.Rank == fault {
					require.Equal(t, c.verdict, rank.Verdict)
				} else {
					require.Equal(t, "downstream", rank.Verdict, "rank %d: %+v", rank.Rank, rank.First)
					require.Equal(t, "collective", rank.First.Kind)
				}
			}
			for _, root := range r.Roots {
				require.Equal(t, fault, root.Rank, "%+v", root)
			}
			if c.verdict == "origin" {
				require.Len(t, r.Roots, 1)
			}
		})
	}
}

func faultOf(t *testing.T, fault string) int {
	t.Helper()
	s := Spec{Faults: []string{fault}}
	c, err := s.choices()
	require.NoError(t, err)
	return max(c.injector.Faults[0].Rank, 0)
}

// Equal inputs on every member and another sum: the collective itself is the root, on all ranks.
func TestACollectiveIsARootOfItsOwn(t *testing.T) {
	var traces [2]*trace.Trace
	for i := range traces {
		s := overRanks(8, nil)
		s.Plans, s.Schedule = []string{"grads.bucket.1 ranks:arrival"}, device.Schedule{Seed: uint64(i)}
		traces[i] = traced(t, s)
	}
	r, err := diff.Compare(traces[0], traces[1])
	require.NoError(t, err)
	require.False(t, r.Identical)
	require.Equal(t, "grads.bucket.1", r.First.Path())
	require.Equal(t, "arrival", *r.Class)
	require.Equal(t, "all-ranks", *r.Pattern)
	for _, root := range r.Roots {
		require.Equal(t, "grads.bucket.1", root.Path())
	}
	for _, rank := range r.Ranks {
		require.Equal(t, "origin", rank.Verdict)
	}
}
