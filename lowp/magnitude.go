package lowp

import "math"

// AbsMax is the largest magnitude, and NaN if there is a NaN: of magnitudes, larger bits are the
// larger number, and those of NaN are the largest.
//
// Reduces: elements, by max, which no order changes.
func AbsMax(x []float32) float32 {
	const magnitude = 1<<31 - 1
	var a, b, c, d uint32
	for ; len(x) >= 4; x = x[4:] {
		a = max(a, math.Float32bits(x[0])&magnitude)
		b = max(b, math.Float32bits(x[1])&magnitude)
		c = max(c, math.Float32bits(x[2])&magnitude)
		d = max(d, math.Float32bits(x[3])&magnitude)
	}
	for _, v := range x {
		a = max(a, math.Float32bits(v)&magnitude)
	}
	return math.Float32frombits(max(a, b, c, d))
}
