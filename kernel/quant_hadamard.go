package kernel

import "math/bits"

// hadamardSigns are the signs that make the transform random, the same in every run.
//
// Source: docs/facts.md, Low precision.
var hadamardSigns = [NVBlock]float32{1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1}

// hadamard is diag(signs)·H/4, H[i,j] = (−1)^(bits that i and j share).
var hadamard = func() (m [NVBlock * NVBlock]float32) {
	for i := range NVBlock {
		for j := range NVBlock {
			m[i*NVBlock+j] = hadamardSigns[i] / 4
			if bits.OnesCount(uint(i&j))%2 == 1 {
				m[i*NVBlock+j] = -m[i*NVBlock+j]
			}
		}
	}
	return m
}()

// RandomHadamard multiplies every 16 neighbours of a row with an orthogonal matrix of ±¼, which spreads an
// outlier over its block. Both operands of a product transformed along the reduced dimension
// leave the product what it was.
//
//	y[16b+j] = fold_i x[16b+i]·sign_i·H[i,j]/4
//
// Shapes:  x (rows,d) → y (rows,d), d a multiple of 16.
// Reduces: 16, by f.
// Source:  docs/facts.md, Low precision; TransformerEngine, hadamard_transform.
func RandomHadamard(y, x []float32, f Fold) {
	if len(x)%NVBlock != 0 {
		panic("kernel: a Hadamard transform of rows that are not whole blocks of 16")
	}
	MatMul(y, NVBlock, RowMajor(x, NVBlock), RowMajor(hadamard[:], NVBlock), len(x)/NVBlock, NVBlock, NVBlock, f)
}
