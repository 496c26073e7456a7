package reduce

import (
	"math"
	"math/bits"

	"firstbit/lowp"
)

// Accumulator adds fp32 values exactly: whatever their order, and however they are split over accumulators that are merged, the
// sum has the same bits. The zero value is empty.
//
// A value goes into the bin of its sign and exponent, which counts values and adds up fractions in one int64:
// the 23 bits of a fraction, 2¹⁸ times, stay below the count.
type Accumulator struct {
	bins  [512]uint64
	since int // values since the bins were last emptied
	total wide
	seen  bool // a value other than −0
	other specials
}

// specials are the values that are no numbers.
type specials struct{ plus, minus, nan bool }

const (
	fractionBits = 23
	binValues    = 1 << 18 // that a bin has room for
	binCount     = fractionBits + 18
)

// Add adds the values of x.
func (a *Accumulator) Add(x []float32) {
	for len(x) > 0 {
		n := min(len(x), binValues-a.since)
		a.fill(x[:n])
		x = x[n:]
		if a.since += n; a.since == binValues {
			a.empty()
		}
	}
}

func (a *Accumulator) fill(x []float32) {
	const fraction = 1<<fractionBits - 1
	b := &a.bins
	for ; len(x) >= 4; x = x[4:] { // four at a time: the bins are written one after another, the rest is not
		u, v, w, z := math.Float32bits(x[0]), math.Float32bits(x[1]), math.Float32bits(x[2]), math.Float32bits(x[3])
		b[u>>fractionBits] += uint64(u&fraction) + 1<<binCount
		b[v>>fractionBits] += uint64(v&fraction) + 1<<binCount
		b[w>>fractionBits] += uint64(w&fraction) + 1<<binCount
		b[z>>fractionBits] += uint64(z&fraction) + 1<<binCount
	}
	for _, v := range x {
		u := math.Float32bits(v)
		b[u>>fractionBits] += uint64(u&fraction) + 1<<binCount
	}
}

// empty moves what the bins have into the total.
func (a *Accumulator) empty() {
	for i, v := range a.bins {
		if v == 0 {
			continue
		}
		a.bins[i] = 0
		count, fractions := v>>binCount, v&(1<<binCount-1)
		exponent, negative := i&255, i > 255
		switch {
		case exponent == 255:
			a.other = a.other.with(specials{fractions == 0 && !negative, fractions == 0 && negative, fractions != 0})
			continue
		case exponent > 0: // a normal number: the leading one is not stored
			fractions += count << fractionBits
			exponent--
		}
		a.seen = a.seen || fractions != 0 || !negative
		a.total.add(fractions, exponent, negative)
	}
	a.since = 0
}

// Merge adds what another accumulator has.
func (a *Accumulator) Merge(b *Accumulator) {
	a.empty()
	b.empty()
	for i, d := range b.total {
		a.total[i] += d
	}
	a.total.carry()
	a.seen = a.seen || b.seen
	a.other = a.other.with(b.other)
}

// Sum is the exact sum, rounded to nearest even once. Without values, or of −0 alone, it is −0.
func (a *Accumulator) Sum(acc lowp.Format) float32 {
	a.empty()
	if v, decided := a.other.sum(); decided {
		return v
	}
	if !a.seen {
		return float32(math.Copysign(0, -1))
	}
	return roundOnce(a.total.odd(), acc)
}

// wide is a whole number of units of 2^−149, in digits of base 2³²; all but the last are at least 0 and below the base after
// carry. It holds 2⁴⁰ values of fp32.
type wide [11]int64

// add adds v·2^shift units, v below 2⁵³.
func (w *wide) add(v uint64, shift int, negative bool) {
	digit, low := shift/32, shift%32
	hi, lo := bits.Mul64(v, 1<<low)
	sign := int64(1)
	if negative {
		sign = -1
	}
	w[digit] += sign * int64(lo&math.MaxUint32)
	w[digit+1] += sign * int64(lo>>32)
	w[digit+2] += sign * int64(hi)
	w.carry()
}

func (w *wide) carry() {
	for i := range w[:len(w)-1] {
		w[i+1] += w[i] >> 32
		w[i] &= math.MaxUint32
	}
}

// odd is the number as a float64, rounded to odd: what is rounded further, to a format of 51 bits or fewer, is as if it
// were rounded once (Boldo & Melquiond 2008).
func (w wide) odd() float64 {
	negative := w[len(w)-1] < 0
	if negative {
		for i := range w {
			w[i] = -w[i]
		}
		w.carry()
	}
	top := len(w) - 1
	for top > 0 && w[top] == 0 {
		top--
	}
	// The 64 bits from the leading one on, and whether anything follows.
	var digits [3]uint64
	for i := range digits {
		if top-i >= 0 {
			digits[i] = uint64(w[top-i])
		}
	}
	rest := false
	for i := 0; i < top-2; i++ {
		rest = rest || w[i] != 0
	}
	lead := bits.LeadingZeros32(uint32(digits[0]))
	m := digits[0]<<32 | digits[1]
	m = m<<lead | digits[2]<<lead>>32
	rest = rest || uint32(digits[2]<<lead) != 0
	const keep = 53
	low := m & (1<<(64-keep) - 1)
	m >>= 64 - keep
	if low != 0 || rest {
		m |= 1
	}
	v := math.Ldexp(float64(m), 32*(top-1)-lead+64-keep-149)
	if negative {
		return -v
	}
	return v
}

// exact32 is the exact sum of values that are all here: block by block in two float64s where these hold it, as they do unless exponents are very
// far apart.
func exact32(x []float32, acc lowp.Format) float32 {
	var total wide
	seen := false
	for at := 0; at < len(x); at += exactChunk {
		block := x[at:min(at+exactChunk, len(x))]
		largest, least := span(block)
		if largest == 0 {
			for _, v := range block {
				seen = seen || !math.Signbit(float64(v))
			}
			continue
		}
		if seen = true; !total.addBlock(block, largest, least+1) {
			var a Accumulator
			a.Add(x)
			return a.Sum(acc)
		}
	}
	if !seen {
		return float32(math.Copysign(0, -1))
	}
	return roundOnce(total.odd(), acc)
}

// exactChunk is the number of values that addBlock takes at most.
const exactChunk = 1 << 13

// addBlock adds values of these largest and least magnitudes, unless they are infinite, NaN, or too far apart: a unit is such that a float64
// holds so many of the largest in whole units, and what the values have below a unit is a whole number of the last bit of the least.
func (w *wide) addBlock(x []float32, largest, least uint32) bool {
	const infinite = 0xff << fractionBits
	top, bottom := max(int(largest>>fractionBits), 1), max(int(least>>fractionBits), 1)
	if largest >= infinite || top-bottom > 56 {
		return false
	}
	unit := math.Ldexp(1, top-126+13-52) // a value is below 2^(top−126), and there are 2¹³
	high, low := split(x, float64(0x1.8p52*unit))
	w.addFloat(high)
	w.addFloat(low)
	return true
}

// addFloat adds a whole number of units of 2^−149.
func (w *wide) addFloat(v float64) {
	fraction, exponent := math.Frexp(math.Abs(v))
	m, shift := uint64(math.Ldexp(fraction, 53)), exponent-53+149 // fits: below 2⁵³
	if shift < 0 {
		m, shift = m>>-shift, 0 // zeros
	}
	w.add(m, shift, v < 0)
}

// exact64 is the exact sum of float64 values, rounded once: partial sums that do not overlap, as many as it takes.
//
// Source: Shewchuk 1997, "Adaptive precision floating-point arithmetic and fast robust geometric predicates".
func exact64(x []float64) float64 {
	var partials []float64
	plain := math.Copysign(0, -1)
	for _, v := range x {
		plain += v
		kept := partials[:0]
		for _, p := range partials {
			if math.Abs(v) < math.Abs(p) {
				v, p = p, v
			}
			hi := v + p
			if lo := p - (hi - v); lo != 0 {
				kept = append(kept, lo)
			}
			v = hi
		}
		partials = append(kept, v)
	}
	if math.IsInf(plain, 0) || math.IsNaN(plain) || len(partials) == 0 {
		return plain
	}
	i := len(partials) - 1
	hi, lo := partials[i], 0.0
	for i > 0 && lo == 0 {
		i--
		s := hi
		hi = s + partials[i]
		lo = partials[i] - (hi - s)
	}
	if i > 0 && (lo < 0) == (partials[i-1] < 0) { // half an ulp, and more of the same sign below it
		if y := float64(2 * lo); y == (hi+y)-hi {
			hi += y
		}
	}
	if hi == 0 {
		return plain
	}
	return hi
}
