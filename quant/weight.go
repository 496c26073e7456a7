package quant

import (
	"firstbit/device"
	"firstbit/lowp"
)

// Dequantised is what a weight's copy stands for.
//
//	FP8: code·inverse ;  MXFP8: code·2^e ;  NVFP4: (code·s)·(amax·fl32(1/2688))
func (p Packed) Dequantised(way Along) *device.Tensor {
	codes, scales := p.Codes, p.Scales
	y := device.NewTensor(lowp.FP32, codes.Shape()...)
	if scales.Format == lowp.FP32 {
		copy(y.F32(), codes.F32())
		scaleParts(y.F32(), scales.F32(), 1)
		return y
	}
	unpack(y.F32(), codes, scales, way, nil)
	if scales.Format == lowp.E4M3 {
		scaleParts(y.F32(), p.Global.F32(), 1.0/2688)
	}
	return y
}

// scaleParts multiplies equal parts of y with a factor each.
func scaleParts(y, factors []float32, by float32) {
	part := len(y) / len(factors)
	for i, f := range factors {
		for j := range y[i*part:][:part] {
			y[i*part+j] *= f * by
		}
	}
}
