package run

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"firstbit/parallel"
	"firstbit/train"
)

// BenchmarkReplicas is what eight ranks cost that send buckets during the backward, or that each have the whole optimizer, beside eight that do
// neither, on one thread.
func BenchmarkReplicas(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	spent := map[string]time.Duration{}
	for b.Loop() {
		for _, kind := range []string{"plain", "overlap", "replicated"} {
			s := Spec{Config: train.Small(), Layout: parallel.Layout{DP: 8}}
			s.Config.Batch, s.Config.Steps, s.Config.Cluster.Overlap, s.Config.Optim.Replicated = 1, 21, kind == "overlap", kind == "replicated"
			spent[kind] += timed(b, s)
		}
	}
	b.ReportMetric(float64(spent["overlap"])/float64(spent["plain"]), "overlap/plain")
	b.ReportMetric(float64(spent["replicated"])/float64(spent["plain"]), "replicated/plain")
	b.ReportMetric(0, "ns/op")
}

// timed is how long the steps of a run take after the first, which allocates.
func timed(b *testing.B, s Spec) time.Duration {
	var start time.Time
	s.Each = func(r train.Result) error {
		if r.Step == 1 {
			start = time.Now()
		}
		return nil
	}
	_, err := Run(s)
	require.NoError(b, err)
	return time.Since(start)
}

// BenchmarkEightRanks is what simulating eight ranks, with their collectives and shards, costs beside one rank on the
// same global batch of preset small, on one thread. A rank's own steps take turns: the sum over all is what counts.
func BenchmarkEightRanks(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	spent := map[int]time.Duration{}
	for b.Loop() {
		for _, n := range []int{1, 8} {
			s := Spec{Config: train.Small(), Layout: parallel.Layout{DP: n}}
			s.Config.Batch, s.Config.Steps = 8/n, 41
			spent[n] += timed(b, s)
		}
	}
	b.ReportMetric(float64(spent[8])/float64(spent[1]), "eight/one")
	b.ReportMetric(0, "ns/op") // the sum of two runs says nothing
}
