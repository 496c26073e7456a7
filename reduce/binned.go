package reduce

import (
	"math"

	"firstbit/lowp"
)

// Bins is the binned sum of fp32 values in three bins of 13 bits: whatever the order of the values, and however they are split
// over Bins that are merged, the sum has the same bits, and what it keeps does not grow. The zero value is empty. It has room
// for 2²⁴ values.
//
// The unit of a bin is a power of two whose exponent is a multiple of 13. A value below half a unit of some bin is rounded to
// zero there, so the highest bin where some value is not decides, with the two below it: every value is rounded to a whole
// number of units of the lowest of the three, to nearest even, and the rest is dropped. When a larger value comes, the lowest
// bin is left out as if it had never been: what a value is in a bin depends on that value alone.
//
// Errors: a value is off by at most 2^−26 of the largest one, and the sum is rounded once.
// Source: Demmel & Nguyen 2015, "Parallel reproducible summation", with whole numbers as the accumulators.
type Bins struct {
	top   int             // the highest bin, once one is filled
	sums  [binsKept]int64 // of the values in units of the bins top, top−1 and top−2
	full  bool            // some value is in them
	seen  bool            // a value other than −0
	other specials
}

const (
	binsKept  = 3
	binWidth  = 13
	binBias   = 156     // a multiple of binWidth that makes the exponents of fp32 positive
	binsChunk = 1 << 14 // values whose sum in the lowest unit a float64 holds exactly
)

// Add adds the values of x.
func (b *Bins) Add(x []float32) {
	for ; len(x) > binsChunk; x = x[binsChunk:] {
		b.add(x[:binsChunk])
	}
	b.add(x)
}

func (b *Bins) add(x []float32) {
	largest, _ := span(x)
	switch {
	case largest >= 0xff<<fractionBits:
		b.other.note(x)
		return
	case largest == 0:
		for _, v := range x {
			b.seen = b.seen || !math.Signbit(float64(v))
		}
		return
	}
	b.raise(binOf(largest))
	for i := range b.sums {
		b.sums[i] += units(x, b.top-i)
	}
}

// units is the sum of the values in units of a bin, each rounded to a whole number of them.
func units(x []float32, bin int) int64 {
	unit := math.Ldexp(1, binWidth*bin-binBias)
	// Beside 1.5·2⁵² units, a float64 keeps whole units and rounds the rest.
	beside := float64(0x1.8p52 * unit)
	sum, _ := split(x, beside)
	return int64(sum / unit) // fits: at most binsChunk values, below 2³⁸ units each
}

// note notes what is no number among the values.
func (s *specials) note(x []float32) {
	for _, v := range x {
		s.plus = s.plus || math.IsInf(float64(v), 1)
		s.minus = s.minus || math.IsInf(float64(v), -1)
		s.nan = s.nan || v != v
	}
}

// with is what either has.
func (s specials) with(t specials) specials {
	return specials{s.plus || t.plus, s.minus || t.minus, s.nan || t.nan}
}

// sum is that of values among which these are, if it does not depend on the others.
func (s specials) sum() (v float32, decided bool) {
	switch {
	case s.nan || s.plus && s.minus:
		return float32(math.NaN()), true
	case s.plus:
		return float32(math.Inf(1)), true
	case s.minus:
		return float32(math.Inf(-1)), true
	}
	return 0, false
}

// binOf is the highest bin where a value of that magnitude is not below half a unit.
func binOf(magnitude uint32) int {
	exponent := max(int(magnitude>>fractionBits), 1) - 127
	return (exponent + 1 + binBias) / binWidth
}

// raise makes a bin the top one, unless a higher one is.
func (b *Bins) raise(top int) {
	if b.full && top <= b.top {
		return
	}
	var sums [binsKept]int64
	for i := range b.sums {
		if j := i + top - b.top; b.full && j < binsKept {
			sums[j] = b.sums[i]
		}
	}
	b.top, b.sums, b.full, b.seen = top, sums, true, true
}

// Merge adds what other bins have.
func (b *Bins) Merge(c *Bins) {
	b.seen = b.seen || c.seen
	b.other = b.other.with(c.other)
	if !c.full {
		return
	}
	b.raise(c.top)
	d := *c
	d.raise(b.top)
	for i, v := range d.sums {
		b.sums[i] += v
	}
}

// Sum is what the bins keep, rounded to nearest even once. Without values, or of −0 alone, it is −0.
func (b *Bins) Sum(acc lowp.Format) float32 {
	if v, decided := b.other.sum(); decided {
		return v
	}
	if !b.seen {
		return float32(math.Copysign(0, -1))
	}
	return roundOnce(oddInt(b.sums[binsKept-1], binWidth*(b.top-binsKept+1)-binBias), acc)
}

// oddInt is v·2^e as a float64, rounded to odd.
func oddInt(v int64, e int) float64 {
	m := v
	if m < 0 {
		m = -m
	}
	for m>>53 != 0 {
		m = m>>1 | m&1
		e++
	}
	f := math.Ldexp(float64(m), e)
	if v < 0 {
		return -f
	}
	return f
}

// binned32 is the binned sum of values that are all here: only the lowest bin is of use.
func binned32(x []float32, acc lowp.Format) float32 {
	largest, _ := span(x)
	if largest == 0 || largest >= 0xff<<fractionBits {
		var b Bins
		b.Add(x)
		return b.Sum(acc)
	}
	low := binOf(largest) - binsKept + 1
	sum := int64(0)
	for ; len(x) > binsChunk; x = x[binsChunk:] {
		sum += units(x[:binsChunk], low)
	}
	return roundOnce(oddInt(sum+units(x, low), binWidth*low-binBias), acc)
}
