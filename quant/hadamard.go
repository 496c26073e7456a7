package quant

import (
	"math/bits"

	"firstbit/kernel"
)

// hadamardSigns are the signs that make the transform random, the same in every run.
//
// Source: docs/facts.md, Low precision.
var hadamardSigns = [nvBlock]float32{1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1}

// hadamard is diag(signs)·H/4, H[i,j] = (−1)^(bits that i and j share).
var hadamard = func() (m [nvBlock * nvBlock]float32) {
	for i := range nvBlock {
		for j := range nvBlock {
			m[i*nvBlock+j] = hadamardSigns[i] / 4
			if bits.OnesCount(uint(i&j))%2 == 1 {
				m[i*nvBlock+j] = -m[i*nvBlock+j]
			}
		}
	}
	return m
}()

// randomHadamard multiplies every 16 neighbours of a row with an orthogonal matrix of ±¼, which spreads an
// outlier over its block. Both operands of a product transformed along the reduced dimension
// leave the product what it was.
//
//	y[16b+j] = fold_i x[16b+i]·sign_i·H[i,j]/4
//
// Shapes:  x (rows,d) → y (rows,d), d a multiple of 16.
// Reduces: 16, by f.
// Source:  docs/facts.md, Low precision; TransformerEngine, hadamard_transform.
func randomHadamard(y, x []float32, f kernel.Fold) {
	if len(x)%nvBlock != 0 {
		panic("quant: a Hadamard transform of rows that are not whole blocks of 16")
	}
	kernel.MatMul(y, nvBlock, kernel.RowMajor(x, nvBlock), kernel.RowMajor(hadamard[:], nvBlock), len(x)/nvBlock, nvBlock, nvBlock, f)
}
