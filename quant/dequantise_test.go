package quant

import (
	"firstbit/kernel"
	"firstbit/lowp"
)

// dequantiseMXRows is y = value(code)·2^(e−127).
//
// Shapes:  codes (rows,d), scales (rows,d/32) → y (rows,d).
func dequantiseMXRows(y []float32, codes, scales []byte) {
	for i, e := range scales[:len(y)/mxBlock] {
		lowp.E4M3.DecodeScaled(y[i*mxBlock:][:mxBlock], codes[i*mxBlock:][:mxBlock], lowp.E8M0.Decode(uint32(e)))
	}
}

// dequantiseMXColumns is y = value(code)·2^(e−127).
//
// Shapes:  codes (rows,d), scales (rows/32,d) → y (rows,d).
func dequantiseMXColumns(y []float32, codes, scales []byte, d int) {
	s := kernel.Borrow[float32](d)
	defer kernel.GiveBack(s)
	for r := range len(y) / d {
		if r%mxBlock == 0 {
			for j, e := range scales[r/mxBlock*d:][:d] {
				(*s)[j] = lowp.E8M0.Decode(uint32(e))
			}
		}
		lowp.E4M3.DecodeEach(y[r*d:][:d], codes[r*d:][:d], *s)
	}
}

// nvDecode is what a block's elements are multiplied with to undo its scale.
//
// Source: TransformerEngine, dequantize_nvfp4.cuh, where 1/(6·448) is a float32.
func nvDecode(scale byte, amax float32) float32 {
	return float32(lowp.E4M3.Decode(uint32(scale))*amax) * (1.0 / (6 * 448))
}

// dequantiseNVFP4 is y = value(code)·(s·amax·fl32(1/2688)), amax being the tensor's.
//
// Shapes:  codes (rows,d/2) bytes, scales (rows,d/16) → y (rows,d).
func dequantiseNVFP4(y []float32, codes, scales []byte, amax float32) {
	for i, s := range scales[:len(y)/nvBlock] {
		lowp.E2M1.DecodeScaled(y[i*nvBlock:][:nvBlock], codes[i*nvBlock/2:][:nvBlock/2], nvDecode(s, amax))
	}
}

// dequantiseNVFP4Square undoes QuantiseNVFP4Square.
//
// Shapes:  codes (rows,d/2) bytes, scales (rows/16,d/16) → y (rows,d).
func dequantiseNVFP4Square(y []float32, codes, scales []byte, d int, amax float32) {
	across := d / nvBlock
	for i := range len(y) / nvBlock {
		s := scales[i/across/nvBlock*across+i%across]
		lowp.E2M1.DecodeScaled(y[i*nvBlock:][:nvBlock], codes[i*nvBlock/2:][:nvBlock/2], nvDecode(s, amax))
	}
}

// dequantiseScaled is y = value(code)·inverse.
//
// Shapes:  codes (n) → y (n).
func dequantiseScaled(f lowp.Format, y []float32, codes []byte, inverse float32) {
	f.DecodeScaled(y, codes, inverse)
}
