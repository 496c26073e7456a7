package reduce

import "math"

// span is the largest magnitude of the values and the least of those that are not 0 less one, as bits without the sign. NaN is largest of all.
func span(x []float32) (largest, least uint32) {
	least = math.MaxUint32
	if n := len(x) &^ 15; vectorised && n > 0 {
		largest, least = span16(&x[0], n)
		x = x[n:]
	}
	a, b := spanPlain(x)
	return max(a, largest), min(b, least)
}

func spanPlain(x []float32) (largest, least uint32) {
	const magnitude = 1<<31 - 1
	least = math.MaxUint32
	for _, v := range x {
		m := math.Float32bits(v) & magnitude
		largest, least = max(largest, m), min(least, m-1)
	}
	return largest, least
}

// split is the sum of the values, each rounded to a whole number of units, and the sum of what that leaves of them. beside is 1.5·2⁵² units. Both must
// be sums that float64 holds exactly in any order.
func split(x []float32, beside float64) (high, low float64) {
	if n := len(x) &^ 15; vectorised && n > 0 {
		high, low = split16(&x[0], n, beside)
		x = x[n:]
	}
	a, b := splitPlain(x, beside)
	return high + a, low + b
}

func splitPlain(x []float32, beside float64) (high, low float64) {
	for _, v := range x {
		units := (float64(v) + beside) - beside
		high += units
		low += float64(v) - units
	}
	return high, low
}

// Lanes is the number of strided sums that AddLanes keeps.
const Lanes = 8

// AddLanes adds value i to sum i mod 8, one after another.
func AddLanes(sums *[Lanes]float32, x []float32) {
	if n := len(x) &^ (Lanes - 1); vectorised && n > 0 {
		lanes8(sums, &x[0], n)
		x = x[n:]
	}
	lanesPlain(sums, x)
}

func lanesPlain(sums *[Lanes]float32, x []float32) {
	for ; len(x) >= Lanes; x = x[Lanes:] {
		for i, v := range x[:Lanes] {
			sums[i] += v
		}
	}
	for i, v := range x {
		sums[i] += v
	}
}
