package experiments

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"firstbit/parallel"
	"firstbit/train"
)

// BenchmarkEightRanks is what simulating eight ranks, with their collectives and shards, costs beside one rank on the
// same global batch of preset small, on one thread: the median step of each.
func BenchmarkEightRanks(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	spent := map[int][]time.Duration{}
	for b.Loop() {
		for _, n := range []int{1, 8} {
			s := Spec{Config: train.Small(), Layout: parallel.Layout{DP: n}}
			s.Config.Batch, s.Config.Steps = 8/n, 41
			var last time.Time
			s.Each = func(r train.Result) {
				if r.Step > 1 { // the first allocates
					spent[n] = append(spent[n], time.Since(last))
				}
				last = time.Now()
			}
			_, err := Run(s)
			require.NoError(b, err)
		}
	}
	b.ReportMetric(float64(median(spent[8]))/float64(median(spent[1])), "eight/one")
	b.ReportMetric(0, "ns/op") // the sum of two runs says nothing
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
