package reduce

import "golang.org/x/sys/cpu"

// vectorised says whether the functions below may be called. Tests clear it.
var vectorised = cpu.X86.HasAVX2

// span16 is spanPlain of n elements, a multiple of 16 above 0.
//
//go:noescape
func span16(x *float32, n int) (largest, least uint32)

// split16 is splitPlain of n elements, a multiple of 16 above 0.
//
//go:noescape
func split16(x *float32, n int, beside float64) (high, low float64)

// lanes8 is lanesPlain of n elements, a multiple of 8 above 0.
//
//go:noescape
func lanes8(sums *[Lanes]float32, x *float32, n int)
