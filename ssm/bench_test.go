package ssm

import (
	"testing"

	"firstbit/kernel/check"
)

// Kernels of the hybrid that are not timed beside their tests.

func BenchmarkCausalConvBackward(b *testing.B) {
	s := convShape{B: 8, T: 64, C: 192, K: 4}
	n := s.B * s.T * s.C
	dx, dy, w := make([]float32, n), check.Ones(n), check.Ones(s.C*s.K)
	for b.Loop() {
		causalConvBackward(dx, dy, nil, w, s, inOrder(s.K))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/element")
}

func BenchmarkGatedNormWeightBackward(b *testing.B) {
	dw := make([]float32, 2*64)
	benchElements(b, func(_, x, z, _, rstd []float32, d int) {
		gatedNormWeightBackward(dw, x, x, z, rstd, d, inOrder(len(x)/len(dw)))
	})
}

func BenchmarkTimeStepBackward(b *testing.B) {
	benchElements(b, func(y, x, z, w, _ []float32, _ int) { timeStepBackward(y, x, x, z, w, w, 0) })
}

func BenchmarkDecayBackward(b *testing.B) {
	da := make([]float32, 128)
	benchElements(b, func(_, x, z, w, _ []float32, _ int) { decayBackward(da, x, z, w, inOrder(len(x)/len(da))) })
}

func BenchmarkSkipBackward(b *testing.B) {
	dd := make([]float32, 8)
	benchElements(b, func(_, x, z, _, _ []float32, _ int) {
		skipBackward(dd, x, z, inOrder(16), inOrder(len(x)/16/len(dd)))
	})
}
