package quant

import (
	"math/rand/v2"
	"testing"

	"firstbit/kernel/check"
	"firstbit/lowp"
)

// BenchmarkQuantise reports bytes of float32 read, or written, a second on one core.
func BenchmarkQuantise(b *testing.B) {
	const rows, d = 128, 256
	r := rand.New(rand.NewPCG(1, 1))
	x, words := check.Random(r, rows*d), make([]uint32, rows*d)
	for i := range words {
		words[i] = r.Uint32()
	}
	codes, scales, y := make([]byte, rows*d), make([]byte, rows*d/nvBlock), make([]float32, rows*d)
	tensor := nvTensorScale(lowp.AbsMax(x))
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"Amax", func() { lowp.AbsMax(x) }},
		{"ScaledE4M3", func() { quantiseScaled(lowp.E4M3, codes, x, 100) }},
		{"ScaledE5M2", func() { quantiseScaled(lowp.E5M2, codes, x, 100) }},
		{"MXRows", func() { quantiseMXRows(codes, scales, x, mxUp) }},
		{"MXColumns", func() { quantiseMXColumns(codes, scales, x, d, mxUp) }},
		{"NVFP4", func() { quantiseNVFP4(codes, scales, x, tensor, nil) }},
		{"NVFP4Stochastic", func() { quantiseNVFP4(codes, scales, x, tensor, words) }},
		{"NVFP4Square", func() { quantiseNVFP4Square(codes, scales, x, d, tensor) }},
		{"RandomHadamard", func() { randomHadamard(y, x, foldOf("seq", nvBlock)) }},
		{"DequantiseMXRows", func() { dequantiseMXRows(y, codes, scales) }},
		{"DequantiseNVFP4", func() { dequantiseNVFP4(y, codes, scales, 4) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(4 * rows * d)
			for b.Loop() {
				c.run()
			}
		})
	}
}
