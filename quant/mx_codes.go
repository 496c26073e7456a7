package quant

import (
	"math"

	"firstbit/kernel"
	"firstbit/lowp"
)

// MXBlock is the number of elements under one scale.
const mxBlock = 32

// mxRule tells how a block's amax becomes its scale, a power of two.
type mxRule uint8

const (
	// MXUp rounds amax/448 up, so that nothing saturates. The quotient is a product with the
	// float32 next to 1/448.
	//
	// Source: TransformerEngine, ptx::float_to_e8m0; torchao calls it RCEIL.
	mxUp mxRule = iota
	// MXFloor is 2^(⌊log₂ amax⌋−8), so that e4m3's largest exponent meets amax's; what is above 448
	// of it saturates.
	//
	// Source: OCP Microscaling Formats 1.0 §6.3; torchao calls it FLOOR.
	mxFloor
)

// Scale is the code, in e8m0, of a block whose largest magnitude is amax; NaN's is NaN.
func (r mxRule) Scale(amax float32) byte {
	if r == mxUp {
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

// quantiseMXRows quantises blocks of 32 neighbours of a row.
//
//	e = rule(amax of the block) ;  code = E4M3(x·2^(127−e)), to nearest even, saturating
//
// Shapes:  x (rows,d) → codes (rows,d), scales (rows,d/32), codes of e8m0.
// Reduces: 32, by max.
// Source:  docs/facts.md, Low precision.
func quantiseMXRows(codes, scales []byte, x []float32, rule mxRule) {
	if len(x)%mxBlock != 0 {
		panic("quant: MX rows that are not whole blocks of 32")
	}
	for i := range scales[:len(x)/mxBlock] {
		block := x[i*mxBlock:][:mxBlock]
		e := rule.Scale(lowp.AbsMax(block))
		scales[i] = e
		lowp.E4M3.EncodeScaled(codes[i*mxBlock:][:mxBlock], block, mxInverse[e])
	}
}

// quantiseMXColumns is QuantiseMXRows for blocks of 32 neighbours of a column, from x itself too; nothing
// is transposed.
//
// Shapes:  x (rows,d) → codes (rows,d), scales (rows/32,d).
// Reduces: 32, by max.
func quantiseMXColumns(codes, scales []byte, x []float32, d int, rule mxRule) {
	if len(x)%(mxBlock*d) != 0 {
		panic("quant: MX columns that are not whole blocks of 32")
	}
	inverse := kernel.Borrow[float32](d)
	defer kernel.GiveBack(inverse)
	for b := range len(x) / (mxBlock * d) {
		block, s := x[b*mxBlock*d:][:mxBlock*d], scales[b*d:][:d]
		amaxColumns(*inverse, block)
		for j, amax := range *inverse {
			s[j] = rule.Scale(amax)
			(*inverse)[j] = mxInverse[s[j]]
		}
		for r := range mxBlock {
			lowp.E4M3.EncodeEach(codes[(b*mxBlock+r)*d:][:d], block[r*d:][:d], *inverse)
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
