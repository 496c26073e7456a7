package run

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/parallel"
	"firstbit/train"
)

// What a step of one rank costs, and what memory, among how many: one sequence a rank. A rank's own steps take turns, short and long, so that few say
// little.
func BenchmarkRanks(b *testing.B) {
	for _, n := range []int{1, 8, 64, 512, 2432} {
		b.Run(fmt.Sprint("dp=", n), func(b *testing.B) {
			s := Spec{Config: train.Pico(), Layout: parallel.Layout{DP: n}}
			s.Config.Batch, s.Config.Steps = 1, b.N+1
			var m runtime.MemStats
			s.Each = func(r train.Result) error {
				if r.Step == 1 { // the first allocates
					b.ResetTimer()
				}
				if r.Step == s.Config.Steps {
					b.StopTimer()
					runtime.ReadMemStats(&m)
				}
				return nil
			}
			_, err := Run(s)
			require.NoError(b, err)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/rank-step")
			b.ReportMetric(float64(m.HeapInuse)/float64(n)/1024, "KiB/rank")
		})
	}
}
