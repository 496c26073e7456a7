package run

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"firstbit/parallel"
	"firstbit/train"
)

// BenchmarkEightRanks is what simulating eight ranks, with their collectives and shards, costs beside one rank on the
// same global batch of preset small, on one thread. A rank's own steps take turns: the sum over all is what counts.
func BenchmarkEightRanks(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	spent := map[int]time.Duration{}
	for b.Loop() {
		for _, n := range []int{1, 8} {
			s := Spec{Config: train.Small(), Layout: parallel.Layout{DP: n}}
			s.Config.Batch, s.Config.Steps = 8/n, 41
			var start time.Time
			s.Each = func(r train.Result) error {
				if r.Step == 1 { // the first allocates
					start = time.Now()
				}
				return nil
			}
			_, err := Run(s)
			require.NoError(b, err)
			spent[n] += time.Since(start)
		}
	}
	b.ReportMetric(float64(spent[8])/float64(spent[1]), "eight/one")
	b.ReportMetric(0, "ns/op") // the sum of two runs says nothing
}
