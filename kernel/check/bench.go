package check

import (
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
)

// OneProcessor sets GOMAXPROCS to 1 and returns what sets it back. Each benchmark that testing runs, inside
// others too, starts at the number of processors that -cpu says.
func OneProcessor() (back func()) {
	procs := runtime.GOMAXPROCS(1)
	return func() { runtime.GOMAXPROCS(procs) }
}

// Flops reports operations in a second.
func Flops(b *testing.B, perOp float64) {
	b.ReportMetric(perOp*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

// Bytes times a kernel over n float32 read.
func Bytes(b *testing.B, n int, f func()) {
	b.SetBytes(int64(4 * n))
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
}

// Raced tells whether the binary has the race detector, which allocates and takes longer.
func Raced() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
