package lowp

import (
	"math"
	"unsafe"
)

// Bits is the bits of x, those of the one NaN where x is a NaN: FP64's code of x.
func Bits(x float64) uint64 {
	if x != x {
		return table[FP64].nan
	}
	return math.Float64bits(x)
}

// A magnitude above that of ∞ is a NaN's: added to it, the reach of its format carries into the sign's bit. One more, and it does to ∞'s.
const reach, reach64 = 1<<23 - 1, 1<<52 - 1

// HasNaN tells whether an element is NaN. It costs a part of what hashing x does, so that x can be hashed where it lies
// unless there is one.
func HasNaN(x []float32) bool {
	if n := len(x) &^ 15; vectorised && n > 0 {
		_, nan := xor16(&x[0], n)
		return nan || carries(x[n:], reach)
	}
	return carries(x, reach)
}

// Finite tells whether no element is NaN or infinite.
func Finite(x []float32) bool { return !carries(x, reach+1) }

// HasNaN64 is HasNaN of fp64.
func HasNaN64(x []float64) bool { return carries64(x, reach64) }

// Finite64 is Finite of fp64.
func Finite64(x []float64) bool { return !carries64(x, reach64+1) }

// carries tells whether a magnitude and add reach the sign's bit. It takes two elements at a time, as the halves of a word:
// no sum of the lower leaves its half.
func carries(x []float32, add uint64) bool {
	if len(x) == 0 {
		return false
	}
	first, last := uint64(math.Float32bits(x[0])), uint64(math.Float32bits(x[len(x)-1]))
	m := (first&magnitude + add) | (last&magnitude + add)
	if uintptr(unsafe.Pointer(&x[0]))%8 != 0 { // a word begins with the second
		x = x[1:]
	}
	if len(x) > 1 {
		m |= carried(unsafe.Slice((*uint64)(unsafe.Pointer(&x[0])), len(x)/2), magnitude<<32|magnitude, add<<32|add)
	}
	return m&(1<<63|1<<31) != 0
}

func carries64(x []float64, add uint64) bool {
	return len(x) > 0 && carried(unsafe.Slice((*uint64)(unsafe.Pointer(&x[0])), len(x)), 1<<63-1, add)>>63 != 0
}

// carried collects the bits of all sums of a word, masked, and add.
func carried(w []uint64, mask, add uint64) uint64 {
	var a, b, c, d uint64
	for ; len(w) >= 8; w = w[8:] {
		a |= w[0]&mask + add
		b |= w[1]&mask + add
		c |= w[2]&mask + add
		d |= w[3]&mask + add
		a |= w[4]&mask + add
		b |= w[5]&mask + add
		c |= w[6]&mask + add
		d |= w[7]&mask + add
	}
	for _, v := range w {
		a |= v&mask + add
	}
	return a | b | c | d
}
