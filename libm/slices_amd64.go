package libm

import (
	"math"

	"golang.org/x/sys/cpu"
)

// vectorised says whether the functions below may be called. Tests clear it.
var vectorised = cpu.X86.HasAVX2

// plainLeast and plainMost bound the arguments, themselves among them, for which eˣ and the power
// of two that scales it are normal numbers. NaN is not among them.
const plainLeast, plainMost = -708, 709

// laneConstants are what the assembly computes with, each in as many lanes as a register has.
//
//lint:ignore U1000 only the assembly reads it
var laneConstants = [...][4]float64{
	four(0.5), four(log2e), four(ln2Hi), four(ln2Lo),
	four(exp1), four(exp2), four(exp3), four(exp4), four(exp5),
	four(1), four(2), four(tiny), four(math.Copysign(0, -1)),
	four(plainLeast), four(plainMost),
}

func four(x float64) [4]float64 { return [4]float64{x, x, x, x} }

// exp32 is ExpOf of n elements, a multiple of 8, up to the first 8 that are not all plain. It
// returns how many it computed.
//
//go:noescape
func exp32(dst, src *float32, n int) int

//go:noescape
func exp64(dst, src *float64, n int) int

// sigmoid32 is Sigmoid of as many elements; plain are those whose negative magnitude is.
//
//go:noescape
func sigmoid32(dst, src *float32, n int) int

//go:noescape
func sigmoid64(dst, src *float64, n int) int

// silu32 is SiLU of as many elements as sigmoid32.
//
//go:noescape
func silu32(dst, src *float32, n int) int

//go:noescape
func silu64(dst, src *float64, n int) int
