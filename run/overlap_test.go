package run

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/data"
	"firstbit/device"
	"firstbit/diff"
	"firstbit/parallel"
	"firstbit/trace"
	"firstbit/train"
)

// overlapped is a small run of everything in a layout, with overlap or without.
func overlapped(t *testing.T, layout string, overlap bool, schedule uint64, change func(*Spec)) *Outcome {
	t.Helper()
	l, err := parallel.ParseLayout(layout)
	require.NoError(t, err)
	s := overRanks(1, func(c *train.Config) {
		c.Batch, c.Micro, c.Seq, c.Steps, c.Cluster.Bucket, c.Cluster.Overlap = 2, 4, 16, 3, 2000, overlap
		c.Model.Pattern, c.Model.Heads, c.Model.KVHeads, c.Model.SSM.Groups = "ME*EME/*E", 4, 4, 2
		if l.PP == 3 {
			c.Micro = 6
		}
		if l.CP > 1 {
			c.Batch = 1
		}
	})
	s.Layout, s.Schedule = l, device.Schedule{Seed: schedule}
	if change != nil {
		change(&s)
	}
	o, err := Run(s)
	require.NoError(t, err)
	return o
}

// packed has documents of a folder packed into sequences, and epochs of twelve samples.
func packed(t *testing.T) func(*Spec) {
	dir := t.TempDir()
	for i, n := range []int{40, 25, 70, 9, 49} { // with their newlines 12·16 + 5 tokens
		require.NoError(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), []byte(strings.Repeat("packed documents ", 5)[:n]), 0o644))
	}
	return func(s *Spec) {
		s.Config.Data, s.Config.EpochEnd, s.Config.PerToken = dir, "partial", true
		s.Config.Documents = data.Documents{ResetAttentionMask: true, EODMaskLoss: true, Prompt: 0.3}
	}
}

// By the fixed recipe overlap changes no bit, in any layout, under any schedule: whatever is read was waited for.
func TestOverlapChangesNoBit(t *testing.T) {
	layouts := []string{"dp=4", "ep=2", "dp=2,tp=2,ep=2", "dp=2,cp=2", "pp=2,dp=2", "pp=2,vpp=2,ep=2", "pp=3,ep=2", "pp=3,vpp=2,ep=2", "dp=2,tp=2,pp=2,ep=2", "tp=2,ep=2,etp=2,dp=2"}
	changes := map[string]func(*Spec){
		"fp32": nil,
		"bf16, dropout and jitter, recomputed": func(s *Spec) {
			s.Config.Precision, s.Config.Model.Dropout, s.Config.Model.MoE.Jitter, s.Config.Model.Recompute = "bf16", 0.1, 0.1, true
		},
		"fp16":                          func(s *Spec) { s.Config.Precision = "fp16" },
		"nvfp4, rounded stochastically": func(s *Spec) { s.Config.Precision = "nvfp4" },
		"fp8, delayed scaling":          func(s *Spec) { s.Config.Precision, s.Config.Quant.Scaling = "fp8", "delayed" },
		"tied":                          func(s *Spec) { s.Config.Model.Tied = true },
		"packed, with a shorter window": packed(t),
	}
	every := []string{"pp=2,vpp=2,ep=2", "dp=2,tp=2,ep=2"} // layouts with every change
	schedules := uint64(3)
	if !*matrix {
		every, schedules = every[:1], 1
	}
	if testing.Short() {
		layouts = every[:1]
	}
	for _, layout := range layouts {
		for name, change := range changes {
			if change != nil && !slices.Contains(every, layout) {
				continue
			}
			t.Run(layout+" "+name, func(t *testing.T) {
				want := overlapped(t, layout, false, 1, change)
				for schedule := range schedules {
					got := overlapped(t, layout, true, schedule, change)
					require.Equal(t, want.Steps, got.Steps, "schedule %d", schedule)
				}
			})
		}
	}
}

// The fast recipe waits for whatever bucket is there, so the squares of buckets meet in an order of the schedule's.
func TestOverlapCompletesByArrival(t *testing.T) {
	arrival := func(s *Spec) { s.Plans = []string{"grads.completion buckets:arrival"} }
	one := overlapped(t, "dp=4", true, 1, arrival)
	require.Equal(t, one.Steps, overlapped(t, "dp=4", true, 1, arrival).Steps, "a schedule replays")
	require.NotEqual(t, one.Steps, overlapped(t, "dp=4", true, 2, arrival).Steps)
	in := overlapped(t, "dp=4", true, 2, func(s *Spec) { s.Plans = []string{"grads.completion buckets:seq"} })
	require.Equal(t, overlapped(t, "dp=4", false, 1, nil).Steps, in.Steps)
}

// In whichever order a stage waits for what it is sent, each piece gets its own.
func TestOrderOfReceivesChangesNoBit(t *testing.T) {
	for _, layout := range []string{"pp=3,dp=2", "pp=2,vpp=2,ep=2", "pp=3,vpp=2,ep=2"} {
		want := overlapped(t, layout, false, 1, nil)
		for schedule := range uint64(2) {
			got := overlapped(t, layout, true, schedule, func(s *Spec) { s.Strict, s.Plans = true, []string{"pipeline.*.completion receives:arrival"} })
			require.NoError(t, got.Missed, layout)
			require.Equal(t, want.Steps, got.Steps, layout)
		}
	}
}

// A bucket is sent while other gradients are still computed, and waited for when all are there.
func TestBucketsAreSentDuringTheBackward(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t")
	overlapped(t, "dp=2", true, 1, func(s *Spec) { s.Trace = trace.Options{Dir: dir, Level: trace.Op} })
	tr, err := trace.Open(dir)
	require.NoError(t, err)
	for _, step := range []int{1, 2, 3} {
		before, pending, backward := 0, 0, 0
		for _, r := range tr.Ranks[0].Records {
			path := trace.Path(r.Scope, r.Name)
			switch {
			case r.Iteration != step:
			case r.Phase == "bwd":
				backward++
				before += pending // a backward Call with so many on their way
			case r.Kind == "collective" && strings.HasPrefix(path, "grads.bucket.") && strings.HasSuffix(path, ".wait"):
				require.Len(t, r.Out, 1)
				pending--
			case r.Kind == "collective" && strings.HasPrefix(path, "grads.bucket."):
				require.Equal(t, []string{"async-pending"}, r.Flags)
				require.Empty(t, r.Out, "what is on its way is not signed")
				pending++
			}
		}
		require.Zero(t, pending)
		require.Positive(t, backward)
		require.Positive(t, before, "step %d", step)
	}
}

// A forward that fails takes along the backward that stands beside it.
func TestFailureBesideABackward(t *testing.T) {
	s := overRanks(1, func(c *train.Config) {
		c.Micro, c.Cluster.Overlap, c.Model.Pattern = 4, true, "*EE*EE*EE*EE"
	})
	s.Layout = parallel.Layout{PP: 2, VPP: 2, EP: 2, DP: 2}
	_, err := Run(s)
	require.NoError(t, err)
	for _, layer := range []string{"1", "2"} { // the first of a piece comes before the backward has begun
		s.Faults = []string{"flip@layers." + layer + ".moe.dispatch.local rank=0 step=1 micro=2 elem=0 bit=0"}
		_, err = Run(s)
		require.ErrorContains(t, err, "layers."+layer+".moe.dispatch.a2a")
	}
}

// Overlap keeps what other recipes promise: canonical bits are those of one rank, fast ones replay on any number of processors, and a resumed
// run goes on as if it had not stopped.
func TestOverlapKeepsOtherPromises(t *testing.T) {
	const layout = "pp=2,vpp=2,ep=2"
	canonical := func(s *Spec) {
		s.Recipe, s.Config.Model.MoE.Aux = "canonical", "sequence"
	}
	require.Equal(t, overlapped(t, layout, false, 1, canonical).Steps, overlapped(t, layout, true, 2, canonical).Steps)

	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	fast := func(s *Spec) { s.Recipe = "fast" }
	want := overlapped(t, layout, true, 1, fast).Steps
	for _, procs := range []int{1, 4} {
		runtime.GOMAXPROCS(procs)
		require.Equal(t, want, overlapped(t, layout, true, 1, fast).Steps)
	}
	require.NotEqual(t, want, overlapped(t, layout, true, 2, fast).Steps)

	dir := t.TempDir()
	whole := overlapped(t, layout, true, 1, nil).Steps
	overlapped(t, layout, true, 1, func(s *Spec) { s.Until, s.Save = 1, Save{Dir: dir} })
	require.Equal(t, whole[1:], overlapped(t, layout, true, 1, func(s *Spec) { s.Resume = dir }).Steps)
}

// Whatever the stages, pieces and microbatches, no rank of a pipeline waits for ever, also where there are fewer microbatches than would fill it.
func TestOverlappedPipelinesEnd(t *testing.T) {
	for _, layout := range []string{"pp=2", "pp=3", "pp=4", "pp=2,vpp=2", "pp=2,vpp=4", "pp=3,vpp=2", "pp=4,vpp=2"} {
		l, err := parallel.ParseLayout(layout)
		require.NoError(t, err)
		for micro := 1; micro <= 4*l.PP; micro++ {
			if l.CheckMicros(micro) != nil {
				continue
			}
			of := func(overlap bool, plans ...string) []train.Result {
				return overlapped(t, layout, overlap, 3, func(s *Spec) {
					s.Config.Model.Pattern, s.Config.Batch, s.Config.Micro, s.Config.Seq, s.Config.Steps, s.Plans = "E-E-E-E-", 1, micro, 8, 1, plans
				}).Steps
			}
			require.Equal(t, of(false), of(true, "pipeline.*.completion receives:arrival"), "%s with %d", layout, micro)
		}
	}
}

// Where two runs differ is drawn from what diff compares: overlap alone is nowhere, and a shard of a state is not held against a whole one.
func TestSpreadIsOfWhatIsCompared(t *testing.T) {
	traced := func(overlap, replicated bool) *trace.Trace {
		s := kindRun(t, "dp=2")
		s.Config.Cluster.Overlap, s.Config.Optim.Replicated = overlap, replicated
		s.Trace = trace.Options{Dir: filepath.Join(t.TempDir(), "t"), Level: trace.Op}
		_, err := Run(s)
		require.NoError(t, err)
		return opened(t, s.Trace.Dir)
	}
	plain := traced(false, false)
	s, err := diff.SpreadOf(plain, traced(true, false))
	require.NoError(t, err)
	require.Nil(t, s.First())
	s, err = diff.SpreadOf(plain, traced(false, true))
	require.NoError(t, err)
	require.Equal(t, "grads.bucket.0", s.First().Name)
}
