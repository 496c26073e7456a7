package device

import "firstbit/lowp"

// Number is a 64-bit number as a tensor of two int32, the low half first.
func Number(n int64) *Tensor {
	t := NewTensor(lowp.INT32, 2)
	t.SetNumber(n)
	return t
}

// Number is the number in a tensor that Number made.
func (t *Tensor) Number() int64 { return int64(t.i32[1])<<32 | int64(uint32(t.i32[0])) }

// SetNumber changes it.
func (t *Tensor) SetNumber(n int64) { t.i32[0], t.i32[1] = int32(n), int32(n>>32) }
