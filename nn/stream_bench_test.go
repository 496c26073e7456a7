package nn

import (
	"testing"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/rng"
)

func BenchmarkDropout(b *testing.B) {
	s := NewStream("dropout.tp")
	s.Seed(rng.New(1, s.Name))
	d, x := device.New(device.Options{}), device.NewTensor(lowp.FP32, 512, 64)
	m := Dropout(s, 0.1)
	step := 0
	for b.Loop() {
		step++
		d.At(step, 0, device.Fwd)
		m.Forward(d, x)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*x.Len()), "ns/element")
}

func BenchmarkIndexedDropout(b *testing.B) {
	d, x := device.New(device.Options{}), device.NewTensor(lowp.FP32, 512, 64)
	m := Dropout(nil, 0.1)
	m.Rows = &Rows{Seed: 1, Tokens: 512}
	step := 0
	for b.Loop() {
		step++
		d.At(step, 0, device.Fwd)
		m.Forward(d, x)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*x.Len()), "ns/element")
}
