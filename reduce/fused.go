package reduce

import (
	"math"

	"firstbit/lowp"
)

// fusedBits is the number of bits that the fused adder of a Tree keeps below the leading one of the largest addend.
const fusedBits = 24

// fusedSum aligns the addends to the largest, cuts off their bits from the 25th below
// its leading one on, and adds the rest exactly, so that no order is left to choose.
// Tensor cores align and cut so; they also cut where Sum rounds to nearest at the end.
//
// Source: Fasi, Higham, Mikaitis & Pranesh 2021, "Numerical behavior of NVIDIA tensor cores".
func fusedSum(x []float32) float64 { return alignedSum(x, fusedBits, math.Trunc) }

// alignedSum is fusedSum with so many bits, 40 at most, and another way to do without the others.
func alignedSum(x []float32, kept int, cut func(float64) float64) float64 {
	largest := 0.0
	for _, v := range x {
		largest = max(largest, math.Abs(float64(v))) // NaN stays NaN
	}
	if largest == 0 || math.IsInf(largest, 0) || math.IsNaN(largest) {
		sum := float64(x[0]) // in float64, where what is finite cannot overflow before it meets ∞
		for _, v := range x[1:] {
			sum += float64(v)
		}
		return sum
	}
	_, e := math.Frexp(largest) // largest < 2^e
	unit := e - 1 - kept
	sum := 0.0 // of up to 2¹² addends below 2⁴¹ units each: exact
	for _, v := range x {
		sum += cut(math.Ldexp(float64(v), -unit))
	}
	return math.Ldexp(sum, unit)
}

// roundOnce rounds to acc by way of a float32 rounded to odd, so that the two
// roundings are as one (Boldo & Melquiond 2008).
func roundOnce(v float64, acc lowp.Format) float32 {
	f := float32(v)
	if acc == lowp.FP32 || float64(f) == v || math.IsNaN(v) || math.Float32bits(f)&1 == 1 {
		return acc.Round(f)
	}
	b := math.Float32bits(f) // even and inexact: its odd neighbour on v's side
	if math.Abs(v) > math.Abs(float64(f)) {
		b++
	} else {
		b--
	}
	return acc.Round(math.Float32frombits(b))
}
