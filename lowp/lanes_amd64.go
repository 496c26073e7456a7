package lowp

import "golang.org/x/sys/cpu"

// vectorised says whether the functions below may be called. Tests clear it.
var vectorised = cpu.X86.HasAVX2

// xor16 is xorPlain of n elements, a multiple of 16 above 0.
//
//go:noescape
func xor16(x *float32, n int) (xor uint64, nan bool)

// upperHalves16 is upperHalvesPlain of n elements, a multiple of 16 above 0.
//
//go:noescape
func upperHalves16(dst *byte, x *float32, n int) (odd bool)
