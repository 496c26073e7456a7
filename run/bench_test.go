package run

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"firstbit/parallel"
	"firstbit/trace"
	"firstbit/train"
)

// BenchmarkStep is forward, backward and AdamW of a preset on one thread.
func BenchmarkStep(b *testing.B) {
	for _, preset := range []string{"tiny", "small", "gpt"} {
		b.Run(preset, func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			c, err := train.Preset(preset)
			require.NoError(b, err)
			run := oneRank(b, Spec{Config: c})
			run.trainer.Step() // the first step makes the storage
			b.ReportAllocs()
			for b.Loop() {
				run.trainer.Step()
			}
		})
	}
}

// oneRank puts a run of one rank together.
func oneRank(b *testing.B, s Spec) *session {
	require.NoError(b, s.Check())
	corpus, err := s.Config.Corpus()
	require.NoError(b, err)
	world := parallel.NewWorld(s.Layout, s.Config.Cluster.RanksPerNode)
	tracer, err := s.trace(world)
	require.NoError(b, err)
	j := &job{Spec: &s}
	run, err := j.begin(world.Rank(0), tracer)
	require.NoError(b, err)
	require.NoError(b, run.assemble(j, world.Rank(0), corpus))
	return run
}

// BenchmarkTracing takes steps of gpt untraced and traced in turn, and reports what a traced step
// costs beside an untraced one of the same run.
func BenchmarkTracing(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	levels := []trace.Level{trace.Off, trace.Metrics, trace.Semantic, trace.Module, trace.Op, trace.Kernel}
	runs, spent := make([]*session, len(levels)), make([]time.Duration, len(levels))
	for i, l := range levels {
		s := Spec{Config: train.GPT()}
		if l > trace.Off {
			s.Trace = trace.Options{Dir: filepath.Join(b.TempDir(), l.String()), Level: l}
		}
		runs[i] = oneRank(b, s)
		runs[i].trainer.Step()
	}
	for b.Loop() {
		for i, r := range runs {
			start := time.Now()
			r.trainer.Step()
			spent[i] += time.Since(start)
		}
	}
	for i, l := range levels[1:] {
		b.ReportMetric(float64(spent[i+1])/float64(spent[0]), l.String()+"/untraced")
	}
	b.ReportMetric(0, "ns/op") // the sum of six runs says nothing
}

// BenchmarkTensorCores takes steps of small in fp32 and with the products of each precision on tensor cores in turn, on one thread, and reports what
// the latter cost beside the former.
func BenchmarkTensorCores(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	kinds := [][2]string{{"fp32"}, {"fp32", "hopper"}, {"bf16", "hopper"}, {"fp16", "hopper"}, {"fp8", "hopper"}, {"mxfp8", "blackwell"}, {"nvfp4", "blackwell"}}
	runs, spent := make([]*session, len(kinds)), make([]time.Duration, len(kinds))
	for i, kind := range kinds {
		s := Spec{Config: train.Small()}
		require.NoError(b, s.Config.Set("precision="+kind[0]))
		if kind[1] != "" {
			s.Plans = []string{"* k:mma(" + kind[1] + ")", "*.experts.w?.dw rows:mma(" + kind[1] + ")"}
		}
		runs[i] = oneRank(b, s)
		runs[i].trainer.Step()
		require.NoError(b, runs[i].device.Err())
	}
	for b.Loop() {
		for i, r := range runs {
			start := time.Now()
			r.trainer.Step()
			spent[i] += time.Since(start)
		}
	}
	for i, kind := range kinds[1:] {
		b.ReportMetric(float64(spent[i+1])/float64(spent[0]), kind[0]+"/plain")
	}
	b.ReportMetric(0, "ns/op") // the sum of seven runs says nothing
}
