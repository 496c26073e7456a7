package lowp

import (
	"math"
	"math/bits"
)

// tf32Cut are the bits of a float32 that tf32 has not.
const tf32Cut = 1<<13 - 1

// FractionOf is the number of fraction bits that an element of format f enters with.
func (m *MMA) FractionOf(f Format) int {
	if m.Input == "tf32" {
		return 10
	}
	return table[f].mantissa
}

// Split is a finite element of an operand in format f as the instruction takes it in: sig·2^(exp − fraction bits of f). A zero has
// exponent −126, a subnormal number the least of its format; tf32 is float32 cut to ten fraction bits.
func (m *MMA) Split(x float32, f Format) (sig int64, exp int) {
	least := table[f].minExp
	if m.Input == "tf32" {
		least = -126
	}
	return split(m.Cut(x), least, m.FractionOf(f))
}

// Cut is an element of an operand as it reaches the instruction: tf32 is cut, so that a NaN that differs from an infinity in its last bits
// alone becomes one.
func (m *MMA) Cut(x float32) float32 {
	if m.Input != "tf32" {
		return x
	}
	return math.Float32frombits(math.Float32bits(x) &^ tf32Cut)
}

func split(x float32, least, fraction int) (sig int64, exp int) {
	b := math.Float32bits(x)
	if b&magnitude == 0 {
		return 0, -126
	}
	sig, exp = int64(b&(1<<23-1)), int(b&magnitude>>23)-127
	if exp < -126 {
		exp = -126
	} else {
		sig |= 1 << 23
	}
	if exp < least {
		sig, exp = sig>>min(least-exp, 63), least
	} else if sig < 1<<23 && least < -126 { // a subnormal float32 that is normal in a format of wider exponents
		n := min(24-bits.Len64(uint64(sig)), -126-least)
		sig, exp = sig<<n, exp-n
	}
	if sig >>= 23 - fraction; b>>31 == 1 {
		sig = -sig
	}
	return sig, exp
}

// Sum is the definition of a fused sum: c + Σ a·b, each product times the scales of its block.
//
//	e = the largest exponent of c and of the products, that of a product being the sum of its operands' exponents and its scales'
//	s = Σ of all addends, each cut toward zero to a multiple of 2^(e − Fraction), exactly
//	d = s cut toward zero to fp32 with Kept fraction bits, or rounded to the nearest fp16, ties to even
//
// Where Exact products are added before they meet others, their exponent is that of the scales alone. A NaN, or ∞ − ∞, or 0·∞, gives the NaN 7fffffff, in fp16
// 7fff; an infinity gives ∞; what is cut to zero is +0.
//
// Shapes: a, b (n), n at most Terms; sa, sb (⌈n/Block⌉), nil without scales.
// Source: docs/facts.md, Tensor cores.
func (m *MMA) Sum(c float32, a, b, sa, sb []float32) float32 {
	if v := m.plain(c, a, b, sa, sb); v != v || math.IsInf(v, 0) {
		return m.special(v)
	}
	sums, exps := make([]int64, 0, m.Terms+1), make([]int, 0, m.Terms+1)
	sig, e := m.SplitAcc(c)
	sums, exps = append(sums, sig<<(m.pointed()-m.AccPlaces())), append(exps, e)
	for i := 0; i < len(a); i += max(m.Exact, 1) {
		sig, e := m.addend(i, a, b, sa, sb)
		sums, exps = append(sums, sig), append(exps, e)
	}
	top := exps[0]
	for _, e := range exps {
		top = max(top, e)
	}
	total := int64(0)
	for i, sig := range sums {
		total += Align(sig, m.Fraction-m.pointed()-(top-exps[i]))
	}
	return m.Round(total, top)
}

// pointed is the number of fraction bits by which Sum writes its addends: as many as each has, and no fewer.
func (m *MMA) pointed() int { return 24 }

// addend is the product i, or the sum of Exact products from i on, with pointed fraction bits, and its exponent.
func (m *MMA) addend(i int, a, b, sa, sb []float32) (sig int64, exp int) {
	bits := m.Places()
	if m.Block > 0 {
		za, ea := m.SplitScale(sa[i/m.Block])
		zb, eb := m.SplitScale(sb[i/m.Block])
		sig, exp = za*zb, ea+eb
	} else {
		sig = 1
	}
	sum := int64(0)
	for j := i; j < min(i+max(m.Exact, 1), len(a)); j++ {
		pa, ea := m.Split(a[j], m.A)
		pb, eb := m.Split(b[j], m.B)
		if m.Exact == 0 {
			return sig * pa * pb << (m.pointed() - bits), exp + ea + eb
		}
		// Exponents of e2m1 are small: a sum by the least of them is exact.
		sum += pa * pb << (fourExp(ea) + fourExp(eb))
	}
	return sig * sum << (m.pointed() - bits), exp
}

// fourExp is the exponent of an element of e2m1, 0 of zero.
func fourExp(e int) int { return max(e, 0) }

// plain is the sum in float64, which tells what is NaN and what is infinite.
func (m *MMA) plain(c float32, a, b, sa, sb []float32) float64 {
	v := float64(c)
	for i := range a {
		p := float64(float64(m.Cut(a[i])) * float64(m.Cut(b[i])))
		if m.Block > 0 {
			p = float64(float64(p*float64(sa[i/m.Block])) * float64(sb[i/m.Block]))
		}
		v += p
	}
	return v
}

func (m *MMA) special(v float64) float32 {
	switch {
	case !math.IsNaN(v):
		return float32(v)
	case m.Out == FP16:
		return FP16.Decode(0x7fff)
	}
	return math.Float32frombits(0x7fffffff)
}

// Places is the number of fraction bits of a product of significands, those of scales included.
func (m *MMA) Places() int {
	places := m.FractionOf(m.A) + m.FractionOf(m.B)
	if m.Block > 0 {
		places += 2 * table[m.Scale].mantissa
	}
	return places
}

// AccPlaces is the number of fraction bits of the accumulator.
func (m *MMA) AccPlaces() int { return table[m.Out].mantissa }

// SplitAcc is Split for the accumulator.
func (m *MMA) SplitAcc(c float32) (sig int64, exp int) {
	return split(c, table[m.Out].minExp, table[m.Out].mantissa)
}

// SplitScale is Split for a scale, whose sign does not count.
func (m *MMA) SplitScale(s float32) (sig int64, exp int) {
	return split(float32(math.Abs(float64(s))), table[m.Scale].minExp, table[m.Scale].mantissa)
}

// Align is sig·2^n cut toward zero.
func Align(sig int64, n int) int64 {
	switch {
	case n >= 0:
		return sig << n
	case n < -62:
		return 0
	case sig < 0:
		return -(-sig >> -n)
	}
	return sig >> -n
}

// Round is s·2^(e − Fraction) as the accumulator takes it.
func (m *MMA) Round(s int64, e int) float32 {
	mag := uint64(max(s, -s))
	unit := e - m.Fraction // mag counts 2^unit
	lead := bits.Len64(mag) - 1 + unit
	lowest := max(lead, -126) - m.Kept // of the bits that stay
	if m.Out == FP16 {
		lowest = max(lead, -14) - 10
	}
	if drop := lowest - unit; drop > 0 {
		unit = lowest
		if drop > 62 {
			return 0
		}
		rest := mag & (1<<drop - 1)
		mag >>= drop
		if half := uint64(1) << (drop - 1); m.Out == FP16 && (rest > half || rest == half && mag&1 == 1) {
			mag++
		}
	}
	v := float32(math.Ldexp(float64(mag), unit))
	if m.Out == FP16 && v > 65504 {
		v = float32(math.Inf(1))
	}
	if s < 0 && mag != 0 {
		return -v
	}
	return v
}
