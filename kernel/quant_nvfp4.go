package kernel

import (
	"math"

	"firstbit/lowp"
)

// NVBlock is the number of neighbours under one e4m3 scale, and the side of a weight's square block.
const NVBlock = 16

// NVTensorScale is the encode scale of a whole tensor: with it the scales of blocks fill e4m3.
//
//	S = 448·6/amax, and 1 when amax is 0
//
// Source: docs/facts.md, Low precision.
func NVTensorScale(amax float32) float32 {
	s := min(float32(448*6)/amax, math.MaxFloat32)
	if amax == 0 || s == 0 {
		return 1
	}
	return s
}

// NVBlockScale is the code, in e4m3, of a block's scale, and the factor its elements are encoded with.
//
//	s = E4M3(amax·(S·fl32(1/6))) ;  factor = min(1/(s·(1/S)), FLT_MAX)
//
// Source: docs/facts.md, Low precision. A division by 6 would give other codes.
func NVBlockScale(amax, tensor float32) (code byte, factor float32) {
	return nvBlockScale(amax, tensor*(1.0/6), 1/tensor)
}

// nvBlockScale is NVBlockScale for S·fl32(1/6) and 1/S.
func nvBlockScale(amax, sixth, inverse float32) (code byte, factor float32) {
	c := lowp.E4M3.Encode(min(float32(amax*sixth), math.MaxFloat32))
	return byte(c), min(1/float32(lowp.E4M3.Decode(c)*inverse), math.MaxFloat32)
}

// QuantiseNVFP4 quantises blocks of 16 neighbours of a row, under the scale S = NVTensorScale of the
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
func QuantiseNVFP4(codes, scales []byte, x []float32, tensor float32, words []uint32) {
	if len(x)%NVBlock != 0 || words != nil && len(words) != len(x) {
		panic("kernel: NVFP4 rows that are not whole blocks of 16, or not a word an element")
	}
	sixth, inverse := tensor*(1.0/6), 1/tensor
	// Scales first, some at a time: a block's elements would wait for its amax and a division.
	var factors [64]float32
	scales = scales[:len(x)/NVBlock]
	for len(scales) > 0 {
		n := min(len(factors), len(scales))
		for i := range n {
			scales[i], factors[i] = nvBlockScale(Amax(x[i*NVBlock:][:NVBlock]), sixth, inverse)
		}
		for i, factor := range factors[:n] {
			block, c := x[i*NVBlock:][:NVBlock], codes[i*NVBlock/2:][:NVBlock/2]
			if words == nil {
				lowp.E2M1.EncodeScaled(c, block, factor)
			} else {
				lowp.E2M1.EncodeStochastic(c, block, factor, words[i*NVBlock:][:NVBlock])
			}
		}
		scales, x, codes = scales[n:], x[n*NVBlock:], codes[n*NVBlock/2:]
		if words != nil {
			words = words[n*NVBlock:]
		}
	}
}

// QuantiseNVFP4Square is QuantiseNVFP4, to nearest even, with a scale for every square of 16 by 16, which is the
// same by rows and by columns: a weight's two copies then hold the same values.
//
// Shapes:  x (rows,d) → codes (rows,d/2) bytes, scales (rows/16,d/16).
// Reduces: 16·16, by max.
func QuantiseNVFP4Square(codes, scales []byte, x []float32, d int, tensor float32) {
	if d%NVBlock != 0 || len(x)%(NVBlock*d) != 0 {
		panic("kernel: an NVFP4 matrix that is not whole blocks of 16 by 16")
	}
	across := d / NVBlock
	for i := range scales[:len(x)/(NVBlock*NVBlock)] {
		at := i/across*NVBlock*d + i%across*NVBlock
		var amax uint32
		for r := range NVBlock {
			amax = max(amax, math.Float32bits(Amax(x[at+r*d:][:NVBlock])))
		}
		var factor float32
		scales[i], factor = NVBlockScale(math.Float32frombits(amax), tensor)
		for r := range NVBlock {
			lowp.E2M1.EncodeScaled(codes[(at+r*d)/2:][:NVBlock/2], x[at+r*d:][:NVBlock], factor)
		}
	}
}

// nvDecode is what a block's elements are multiplied with to undo its scale.
//
// Source: TransformerEngine, dequantize_nvfp4.cuh, where 1/(6·448) is a float32.
func nvDecode(scale byte, amax float32) float32 {
	return float32(lowp.E4M3.Decode(uint32(scale))*amax) * (1.0 / (6 * 448))
}

// DequantiseNVFP4 is y = value(code)·(s·amax·fl32(1/2688)), amax being the tensor's.
//
// Shapes:  codes (rows,d/2) bytes, scales (rows,d/16) → y (rows,d).
func DequantiseNVFP4(y []float32, codes, scales []byte, amax float32) {
	for i, s := range scales[:len(y)/NVBlock] {
		lowp.E2M1.DecodeScaled(y[i*NVBlock:][:NVBlock], codes[i*NVBlock/2:][:NVBlock/2], nvDecode(s, amax))
	}
}

// DequantiseNVFP4Square undoes QuantiseNVFP4Square.
//
// Shapes:  codes (rows,d/2) bytes, scales (rows/16,d/16) → y (rows,d).
func DequantiseNVFP4Square(y []float32, codes, scales []byte, d int, amax float32) {
	across := d / NVBlock
	for i := range len(y) / NVBlock {
		s := scales[i/across/NVBlock*across+i%across]
		lowp.E2M1.DecodeScaled(y[i*NVBlock:][:NVBlock], codes[i*NVBlock/2:][:NVBlock/2], nvDecode(s, amax))
	}
}

// Transpose is y[j,i] = x[i,j].
//
// Shapes:  x (rows,d) → y (d,rows).
func Transpose(y, x []float32, d int) {
	rows := len(x) / d
	for i := range rows {
		for j, v := range x[i*d:][:d] {
			y[j*rows+i] = v
		}
	}
}
