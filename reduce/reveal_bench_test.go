//go:build unix

package reduce

import (
	"syscall"
	"testing"
	"time"

	"firstbit/lowp"
)

// processor is the processor time that this process has had.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkReveal512 is processor time, so that a busy machine does not count: of the whole, and of it what the box itself takes to add.
func BenchmarkReveal512(b *testing.B) {
	for _, order := range []string{"seq", "reverse", "pairwise", "blocked(16)", "lanes(8)", "splitk(8)", "segments(8)", "perm(7)", "lanes(8,seq,lanes(4,seq))", "mma"} {
		b.Run(order, func(b *testing.B) {
			var sum func(x []float32) float32
			if order == "mma" {
				tree := Seq.Program(512).FusedTree(16)
				sum = func(x []float32) float32 { return tree.Sum(x, lowp.FP32) }
			} else {
				program := MustOrder(order).Program(512)
				sum = func(x []float32) float32 { return evaluate(program, x) }
			}
			questions, begun := 0, processor()
			for range b.N {
				found, err := Reveal(512, sum, lowp.FP32)
				if err != nil || !found.Verified {
					b.Fatal(found.Class, err)
				}
				questions = found.Calls + found.Checks
			}
			all := processor() - begun
			x, begun := make([]float32, 512), processor()
			for range b.N * questions {
				sum(x)
			}
			box := processor() - begun
			b.ReportMetric(all.Seconds()*1000/float64(b.N), "ms")
			b.ReportMetric(box.Seconds()*1000/float64(b.N), "ms_of_the_box")
			b.ReportMetric(float64(questions), "questions")
			b.ReportMetric(0, "ns/op")
		})
	}
}
