package nn

import (
	"firstbit/device"
	"firstbit/lowp"
)

// The quantisers of weights read the master. Programs that rebuild copies after a restore have read the weight as it is in bf16, or what
// a copy stands for, and so have kernels by another plan.
var (
	weightScaled    = planned("quantise.e4m3", sources, weightRun(runQuantScaled, AlongRows))
	weightMXRows    = [2]*device.Kernel{planned("quantise.mx.rows", "rule=up|floor; "+sources, weightRun(runMXRows, AlongRows)), planned("quantise.mx.rows", "rule=floor|up; "+sources, weightRun(runMXRows, AlongRows))}
	weightMXColumns = [2]*device.Kernel{planned("quantise.mx.columns", "rule=up|floor; "+sources, weightRun(runMXColumns, AlongColumns)),
		planned("quantise.mx.columns", "rule=floor|up; "+sources, weightRun(runMXColumns, AlongColumns))}
	weightNVSquare = planned("quantise.nvfp4.square", sources, weightRun(runNVSquare, OfWeight))
)

const sources = "source=master|bf16|dequantised"

// weightRun has a quantiser read the source that the plan says.
func weightRun(run func(*device.Call), way Along) func(*device.Call) {
	return func(c *device.Call) {
		master := c.In[0].Tensor
		switch c.Plan.Choice("source") {
		case "bf16":
			c.In[0].Tensor = c.Input("w")
		case "dequantised":
			run(c)
			c.In[0].Tensor = packedOf(c).Dequantised(way)
		}
		run(c)
		c.In[0].Tensor = master
	}
}

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
