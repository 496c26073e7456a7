package quant

import (
	"math"

	"firstbit/lowp"
)

// NVBlock is the number of neighbours under one e4m3 scale, and the side of a weight's square block.
const nvBlock = 16

// nvTensorScale is the encode scale of a whole tensor: with it the scales of blocks fill e4m3.
//
//	S = 448·6/amax, and 1 when amax is 0
//
// Source: docs/facts.md, Low precision.
func nvTensorScale(amax float32) float32 {
	s := min(float32(448*6)/amax, math.MaxFloat32)
	if amax == 0 || s == 0 {
		return 1
	}
	return s
}

// nvBlockScale is the code, in e4m3, of a block's scale, and the factor its elements are encoded with.
//
//	s = E4M3(amax·(S·fl32(1/6))) ;  factor = min(1/(s·(1/S)), FLT_MAX)
//
// Source: docs/facts.md, Low precision. A division by 6 would give other codes.
func nvBlockScale(amax, tensor float32) (code byte, factor float32) {
	return nvScale(amax, tensor*(1.0/6), 1/tensor)
}

// nvScale is nvBlockScale for S·fl32(1/6) and 1/S.
func nvScale(amax, sixth, inverse float32) (code byte, factor float32) {
	c := lowp.E4M3.Encode(min(float32(amax*sixth), math.MaxFloat32))
	return byte(c), min(1/float32(lowp.E4M3.Decode(c)*inverse), math.MaxFloat32)
}

// quantiseNVFP4 quantises blocks of 16 neighbours of a row, under the scale S = NVTensorScale of the
// tensor's amax. For the copy by columns, give the transpose.
//
//	code = E2M1(x·factor), saturating at ±6
//
// To nearest even without words; with them, stochastically. It consumes exactly one word an element, in
// the elements' order: whoever draws them has moved that stream by len(x) words.
//
// Shapes:  x (rows,d), words (rows,d) or nil → codes (rows,d/2) bytes, scales (rows,d/16), codes of e4m3.
// Reduces: 16, by max.
// Source:  docs/facts.md, Low precision.
func quantiseNVFP4(codes, scales []byte, x []float32, tensor float32, words []uint32) {
	if len(x)%nvBlock != 0 || words != nil && len(words) != len(x) {
		panic("quant: NVFP4 rows that are not whole blocks of 16, or not a word an element")
	}
	sixth, inverse := tensor*(1.0/6), 1/tensor
	// Scales first, some at a time: a block's elements would wait for its amax and a division.
	var factors [64]float32
	scales = scales[:len(x)/nvBlock]
	for len(scales) > 0 {
		n := min(len(factors), len(scales))
		for i := range n {
			scales[i], factors[i] = nvScale(lowp.AbsMax(x[i*nvBlock:][:nvBlock]), sixth, inverse)
		}
		for i, factor := range factors[:n] {
			block, c := x[i*nvBlock:][:nvBlock], codes[i*nvBlock/2:][:nvBlock/2]
			if words == nil {
				lowp.E2M1.EncodeScaled(c, block, factor)
			} else {
				lowp.E2M1.EncodeStochastic(c, block, factor, words[i*nvBlock:][:nvBlock])
			}
		}
		scales, x, codes = scales[n:], x[n*nvBlock:], codes[n*nvBlock/2:]
		if words != nil {
			words = words[n*nvBlock:]
		}
	}
}

// quantiseNVFP4Square is QuantiseNVFP4, to nearest even, with a scale for every square of 16 by 16, which is the
// same by rows and by columns: a weight's two copies then hold the same values.
//
// Shapes:  x (rows,d) → codes (rows,d/2) bytes, scales (rows/16,d/16).
// Reduces: 16·16, by max.
func quantiseNVFP4Square(codes, scales []byte, x []float32, d int, tensor float32) {
	if d%nvBlock != 0 || len(x)%(nvBlock*d) != 0 {
		panic("quant: an NVFP4 matrix that is not whole blocks of 16 by 16")
	}
	across := d / nvBlock
	for i := range scales[:len(x)/(nvBlock*nvBlock)] {
		at := i/across*nvBlock*d + i%across*nvBlock
		var amax uint32
		for r := range nvBlock {
			amax = max(amax, math.Float32bits(lowp.AbsMax(x[at+r*d:][:nvBlock])))
		}
		var factor float32
		scales[i], factor = nvBlockScale(math.Float32frombits(amax), tensor)
		for r := range nvBlock {
			lowp.E2M1.EncodeScaled(codes[(at+r*d)/2:][:nvBlock/2], x[at+r*d:][:nvBlock], factor)
		}
	}
}
