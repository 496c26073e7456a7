package lowp

import "math"

// Encode is the code, in the low bits, of the value of f nearest to x. Every NaN is NaN's code; in E2M1, which has none, the
// largest value stands for it. Where f saturates, so does Encode, ±∞ too.
func (f Format) Encode(x float32) uint32 {
	s := f.small()
	switch {
	case x != x && s.kind == finite:
		return 1<<(s.bits-1) - 1
	case x != x:
		return uint32(s.nan)
	case s.mantissa == 23:
		return math.Float32bits(x)
	case s.kind == power:
		return uint32(Power(x))
	}
	b := math.Float32bits(x)
	if s.bits == 8 || s.bits == 4 {
		return b>>31<<(s.bits-1) | coders[f].nearest(b&magnitude)
	}
	drop := uint(23 - s.mantissa)
	lowest := uint32(s.minExp+127) << 23
	if abs := b &^ (1 << 31); abs&(1<<drop-1) != 0 || abs < lowest || math.Float32frombits(abs) > float32(s.max) {
		b = math.Float32bits(f.Round(x))
	}
	sign, abs := b>>31<<(s.bits-1), b&^(1<<31)
	switch {
	case abs == 0x7f800000:
		return sign | s.infinity()
	case abs < lowest: // subnormal: a multiple of the smallest
		return sign | uint32(float64(float64(math.Float32frombits(abs))/f.MinSubnormal())) // fits: below 2^mantissa
	}
	return sign | (abs-uint32(s.minExp+126)<<23)>>drop
}

// Overflow is Encode that does not saturate: past the largest value by half a step lies ∞, or NaN
// where f has no ∞. E2M1 has neither and saturates all the same.
func (f Format) Overflow(x float32) uint32 {
	s, c := f.small(), f.Encode(x)
	abs := math.Float32bits(x) &^ (1 << 31)
	if !s.saturates || s.kind == finite || s.kind == power || abs > 0x7f800000 ||
		math.Float32frombits(s.nearest(abs)) <= float32(s.max) {
		return c
	}
	if s.kind == allOnes {
		return uint32(s.nan)
	}
	return c>>(s.bits-1)<<(s.bits-1) | s.infinity()
}

// infinity is the code of +∞.
func (s *spec) infinity() uint32 { return 1<<(s.bits-1) - 1<<s.mantissa }

// small is f's row, for the formats whose values are float32's too.
func (f Format) small() *spec {
	s := &table[f]
	if s.kind == integer || s.mantissa > 23 {
		panic("lowp: the codes of fp64 and int32 are not made of float32")
	}
	return s
}

// Decode is the value of a code; a NaN keeps sign and payload.
func (f Format) Decode(c uint32) float32 {
	s := f.small()
	switch {
	case s.bits == 32:
		return math.Float32frombits(c)
	case s.bits <= 8:
		return values[f][uint8(c)]
	}
	return s.decode(c)
}

// values is the value of every code of the formats of a byte and less.
var values = func() (v [formats][256]float32) {
	for f := range formats {
		if s := &table[f]; s.bits <= 8 {
			for c := range uint32(1) << s.bits {
				v[f][c] = s.decode(c)
			}
		}
	}
	return v
}()

func (s *spec) decode(c uint32) float32 {
	if s.kind == power {
		if c == 0xff {
			return math.Float32frombits(0x7fc00000)
		}
		return float32(math.Ldexp(1, int(c)-127))
	}
	drop := uint(23 - s.mantissa)
	sign := c >> (s.bits - 1) << 31
	abs := c & (1<<(s.bits-1) - 1)
	switch {
	case s.kind == ieee && abs >= s.infinity():
		return math.Float32frombits(sign | 0x7f800000 | abs<<drop&0x7fffff)
	case s.kind == allOnes && abs == 1<<(s.bits-1)-1:
		return math.Float32frombits(sign | 0x7fc00000)
	case abs>>s.mantissa == 0:
		v := float32(math.Ldexp(float64(abs), s.minExp-s.mantissa))
		return math.Float32frombits(sign | math.Float32bits(v))
	}
	return math.Float32frombits(sign | (abs<<drop + uint32(s.minExp+126)<<23))
}
