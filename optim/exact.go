package optim

import (
	"math"
	"math/bits"
)

// SquareDigits is the length of an exact sum of squares: digits of 16 bits from the lowest up, then how many of those who
// added had an infinity, and how many a NaN.
const squareDigits = squareInf + 2

const (
	digitBits = 16
	digitMask = 1<<digitBits - 1
	// Squares lie from 2⁻²⁹⁸ to below 2²⁵⁶; 2⁶³ of them below 2³¹⁹.
	squareScale = -304 // the exponent of the lowest digit
	squareInf   = 40
	squareNaN   = squareInf + 1

	mostInBin = 1 << 16 // squares of 48 bits that a bin of 64 can hold
)

// squares is a sum of squares in fixed point, wide enough that nothing is ever rounded: in whatever order and groups
// squares are added, it is the same number.
type squares struct {
	digits   [squareInf]uint64
	inf, nan bool
	bins     [256]uint64 // squares of significands, by exponent
	waiting  int         // squares in the bins
}

// Add adds the squares of x.
//
// Shapes: x (n).
// Reduces: n, exactly.
func (s *squares) Add(x []float32) {
	for len(x) > 0 {
		n := min(len(x), mostInBin-s.waiting)
		for _, v := range x[:n] {
			u := math.Float32bits(v)
			e, m := u>>23&0xff, uint64(u&(1<<23-1))
			switch {
			case e == 0xff:
				s.inf = s.inf || m == 0
				s.nan = s.nan || m != 0
				continue
			case e == 0:
				e = 1
			default:
				m |= 1 << 23
			}
			s.bins[e] += m * m
		}
		x = x[n:]
		if s.waiting += n; s.waiting == mostInBin {
			s.flush()
		}
	}
}

// flush adds the bins to the digits. A value in bin e is m²·2^(2e−300).
func (s *squares) flush() {
	for e, v := range s.bins {
		if v == 0 {
			continue
		}
		shift := 2*e - 300 - squareScale
		d, o := shift/digitBits, shift%digitBits
		lo, hi := v<<o, v>>1>>(63-o)
		for i := range 4 {
			s.digits[d+i] += lo >> (digitBits * i) & digitMask
		}
		s.digits[d+4] += hi
		s.bins[e] = 0
	}
	s.waiting = 0
	carry := uint64(0)
	for i := range s.digits {
		carry += s.digits[i]
		s.digits[i] = carry & digitMask
		carry >>= digitBits
	}
}

// Digits writes the sum down. Digits of as many as 2¹⁵ sums may be added as whole numbers, and are those of their sum.
//
// Shapes: dst (SquareDigits).
func (s *squares) Digits(dst []int32) {
	s.flush()
	for i, d := range s.digits {
		dst[i] = int32(d)
	}
	dst[squareInf], dst[squareNaN] = 0, 0
	if s.inf {
		dst[squareInf] = 1
	}
	if s.nan {
		dst[squareNaN] = 1
	}
}

// sumOfSquares is the value that digits, or sums of digits, stand for, rounded once.
//
// Shapes: digits (SquareDigits).
func sumOfSquares(digits []int32) float64 {
	switch {
	case digits[squareNaN] > 0:
		return math.NaN()
	case digits[squareInf] > 0:
		return math.Inf(1)
	}
	var d [squareInf + 4]uint64 // four more below the lowest
	top, carry := 0, uint64(0)
	for i, v := range digits[:squareInf] {
		carry += uint64(v)
		d[i+4] = carry & digitMask
		carry >>= digitBits
		if d[i+4] != 0 {
			top = i + 4
		}
	}
	if top == 0 {
		return 0
	}
	head := d[top]<<48 | d[top-1]<<32 | d[top-2]<<16 | d[top-3]
	zeros := bits.LeadingZeros64(head)
	below := d[top-4] << zeros
	head = head<<zeros | below>>digitBits
	rest := below & digitMask
	for _, v := range d[:top-4] {
		rest |= v
	}
	// To nearest, ties to even, at 53 bits.
	const drop = 64 - 53
	half, low := uint64(1)<<(drop-1), head&(1<<drop-1)
	head >>= drop
	if low > half || low == half && (rest != 0 || head&1 != 0) {
		head++
	}
	return math.Ldexp(float64(head), (top-4-3)*digitBits+squareScale-zeros+drop)
}
