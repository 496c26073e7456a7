package libm

import (
	"math"
	"testing"
)

var sink float64

// The standard library's Exp stands beside ours for scale.
func BenchmarkExp(b *testing.B) {
	for _, c := range []struct {
		name string
		f    func(float64) float64
	}{{"libm", Exp}, {"math", math.Exp}} {
		b.Run(c.name, func(b *testing.B) { bench(b, c.f, -20) })
	}
}

func BenchmarkLog(b *testing.B)      { bench(b, Log, 1) }
func BenchmarkSigmoid(b *testing.B)  { bench(b, Sigmoid[float64], -20) }
func BenchmarkSoftplus(b *testing.B) { bench(b, Softplus[float64], -20) }

func bench(b *testing.B, f func(float64) float64, x float64) {
	s := 0.0
	for range b.N {
		s += f(x)
		x += 1e-6
	}
	sink = s
}
