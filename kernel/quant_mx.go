package kernel

import (
	"math"

	"firstbit/lowp"
)

// MXBlock is the number of elements under one scale.
const MXBlock = 32

// MXRule tells how a block's amax becomes its scale, a power of two.
type MXRule uint8

const (
	// MXUp rounds amax/448 up, so that nothing saturates. The quotient is a product with the
	// float32 next to 1/448.
	//
	// Source: TransformerEngine, ptx::float_to_e8m0; torchao calls it RCEIL.
	MXUp MXRule = iota
	// MXFloor is 2^(⌊log₂ amax⌋−8), so that e4m3's largest exponent meets amax's; what is above 448
	// of it saturates.
	//
	// Source: OCP Microscaling Formats 1.0 §6.3; torchao calls it FLOOR.
	MXFloor
)

// Scale is the code, in e8m0, of a block whose largest magnitude is amax; NaN's is NaN.
func (r MXRule) Scale(amax float32) byte {
	if r == MXUp {
		return lowp.PowerUp(float32(amax * (1.0 / 448)))
	}
	b := math.Float32bits(amax)
	if b > 0x7f800000 {
		return 0xff
	}
	return byte(max(b>>23, 8) - 8)
}

// mxInverse is 2^(127−e) for every code e, exact for all but NaN.
var mxInverse = func() (v [256]float32) {
	for e := range v {
		v[e] = float32(math.Ldexp(1, 127-e))
	}
	v[255] = float32(math.NaN())
	return v
}()

// QuantiseMXRows quantises blocks of 32 neighbours of a row.
//
//	e = rule(amax of the block) ;  code = E4M3(x·2^(127−e)), to nearest even, saturating
//
// Shapes:  x (rows,d) → codes (rows,d), scales (rows,d/32), codes of e8m0.
// Reduces: 32, by max.
// Source:  docs/facts.md, Low precision.
func QuantiseMXRows(codes, scales []byte, x []float32, rule MXRule) {
	if len(x)%MXBlock != 0 {
		panic("kernel: MX rows that are not whole blocks of 32")
	}
	for i := range scales[:len(x)/MXBlock] {
		block := x[i*MXBlock:][:MXBlock]
		e := rule.Scale(Amax(block))
		scales[i] = e
		lowp.E4M3.EncodeScaled(codes[i*MXBlock:][:MXBlock], block, mxInverse[e])
	}
}

// QuantiseMXColumns is QuantiseMXRows for blocks of 32 neighbours of a column, from x itself too; nothing
// is transposed.
//
// Shapes:  x (rows,d) → codes (rows,d), scales (rows/32,d).
// Reduces: 32, by max.
func QuantiseMXColumns(codes, scales []byte, x []float32, d int, rule MXRule) {
	if len(x)%(MXBlock*d) != 0 {
		panic("kernel: MX columns that are not whole blocks of 32")
	}
	inverse := Borrow[float32](d)
	defer GiveBack(inverse)
	for b := range len(x) / (MXBlock * d) {
		block, s := x[b*MXBlock*d:][:MXBlock*d], scales[b*d:][:d]
		amaxColumns(*inverse, block)
		for j, amax := range *inverse {
			s[j] = rule.Scale(amax)
			(*inverse)[j] = mxInverse[s[j]]
		}
		for r := range MXBlock {
			lowp.E4M3.EncodeEach(codes[(b*MXBlock+r)*d:][:d], block[r*d:][:d], *inverse)
		}
	}
}

// amaxColumns is Amax of each column of x, whose rows are as long as amax.
func amaxColumns(amax, x []float32) {
	clear(amax)
	d := len(amax)
	for ; len(x) > 0; x = x[d:] {
		for j, v := range x[:d] {
			amax[j] = math.Float32frombits(max(math.Float32bits(amax[j]), math.Float32bits(v)&(1<<31-1)))
		}
	}
}

// DequantiseMXRows is y = value(code)·2^(e−127).
//
// Shapes:  codes (rows,d), scales (rows,d/32) → y (rows,d).
func DequantiseMXRows(y []float32, codes, scales []byte) {
	for i, e := range scales[:len(y)/MXBlock] {
		lowp.E4M3.DecodeScaled(y[i*MXBlock:][:MXBlock], codes[i*MXBlock:][:MXBlock], lowp.E8M0.Decode(uint32(e)))
	}
}

// DequantiseMXColumns is y = value(code)·2^(e−127).
//
// Shapes:  codes (rows,d), scales (rows/32,d) → y (rows,d).
func DequantiseMXColumns(y []float32, codes, scales []byte, d int) {
	s := Borrow[float32](d)
	defer GiveBack(s)
	for r := range len(y) / d {
		if r%MXBlock == 0 {
			for j, e := range scales[r/MXBlock*d:][:d] {
				(*s)[j] = lowp.E8M0.Decode(uint32(e))
			}
		}
		lowp.E4M3.DecodeEach(y[r*d:][:d], codes[r*d:][:d], *s)
	}
}
