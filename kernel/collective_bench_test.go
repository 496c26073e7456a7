package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"firstbit/lowp"
	"firstbit/reduce"
)

// BenchmarkReduceMembers adds 20 K floats of each member on all processors, in turn with a plain copy of as many bytes on
// one, so that what else the machine does hits both.
func BenchmarkReduceMembers(b *testing.B) {
	const n = 20 << 10
	for _, ranks := range []int{8, 64, 512, 2432} {
		in := randomMembers[float32](rand.New(rand.NewPCG(1, 1)), ranks, n)
		dst, plain := make([]float32, n), make([]float32, n)
		p := Partition{Elements: n, Ranks: ranks, Channels: 1, Unit: 4}
		for _, algorithm := range []string{"seq", "ring", "nccltree", "pairwise", "ring, a permutation for each channel", "seq in bf16", "ring in bf16"} {
			b.Run(fmt.Sprintf("%s of %d", algorithm, ranks), func(b *testing.B) {
				acc, of := lowp.FP32, algorithm
				if of == "seq in bf16" || of == "ring in bf16" {
					acc, of = lowp.BF16, of[:len(of)-len(" in bf16")]
				}
				pieces := piecesOf(dst, spansOf(of, p), ranks, acc)
				sum, copied := time.Duration(0), time.Duration(0)
				b.ReportAllocs()
				for b.Loop() {
					start := time.Now()
					ReduceMembers(pieces, in)
					sum += time.Since(start)
					start = time.Now()
					for _, x := range in {
						copy(plain, x)
					}
					copied += time.Since(start)
				}
				b.ReportMetric(float64(sum.Microseconds())/float64(b.N), "µs")
				b.ReportMetric(sum.Seconds()/copied.Seconds(), "×copy")
			})
		}
	}
}

// BenchmarkRingProgram is what a chunk's order costs when nothing of it is kept.
func BenchmarkRingProgram(b *testing.B) {
	b.ReportAllocs()
	ring := reduce.MustOrder("ring")
	for b.Loop() {
		ring.Resolve(reduce.Context{Part: 7}, 2432).Program(2432)
	}
}
