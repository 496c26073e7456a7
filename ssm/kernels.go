package ssm

import (
	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/reduce"
)

var (
	convolution = &device.Kernel{Name: "causal_conv1d", Fixed: reduce.MustPlan("taps:seq/fp32"),
		Run: device.Width(runConvolution[float32], runConvolution[float64])}
	convolutionBackward = &device.Kernel{Name: "causal_conv1d.bwd", Fixed: reduce.MustPlan("taps:seq/fp32"),
		Run: device.Width(runConvolutionBackward[float32], runConvolutionBackward[float64])}
	convolutionWeight = &device.Kernel{Name: "causal_conv1d.wgrad", Fixed: reduce.MustPlan("rows:seq/fp32"), Tokens: "rows",
		Fast: reduce.MustPlan("rows:splitk(8,arrival)/fp32"),
		Run:  device.Width(runConvolutionWeight[float32], runConvolutionWeight[float64])}
	silu         = &device.Kernel{Name: "silu", Run: device.Width(runSiLU[float32], runSiLU[float64])}
	siluBackward = &device.Kernel{Name: "silu.bwd", Run: device.Width(runSiLUBackward[float32], runSiLUBackward[float64])}

	timeStep         = &device.Kernel{Name: "time_step", Run: device.Width(runTimeStep[float32], runTimeStep[float64])}
	timeStepBackward = &device.Kernel{Name: "time_step.bwd", Run: device.Width(runTimeStepBackward[float32], runTimeStepBackward[float64])}
	biasBackward     = &device.Kernel{Name: "ssd.ddt_bias", Fixed: reduce.MustPlan("rows:seq/fp32"), Tokens: "rows",
		Fast: reduce.MustPlan("rows:splitk(8,arrival)/fp32"),
		Run:  device.Width(runBiasBackward[float32], runBiasBackward[float64])}
	decayBackward = &device.Kernel{Name: "ssd.dA", Fixed: reduce.MustPlan("rows:seq/fp32; coeff=sum|token"), Tokens: "rows",
		Fast: reduce.MustPlan("rows:splitk(8,arrival)/fp32; coeff=sum|token"), Canonical: reduce.MustPlan("coeff=token"),
		Run: device.Width(runDecayBackward[float32], runDecayBackward[float64])}
	skipBackward = &device.Kernel{Name: "ssd.dD", Fixed: reduce.MustPlan("p:seq/fp32; rows:seq/fp32"), Tokens: "rows",
		Fast: reduce.MustPlan("p:seq/fp32; rows:splitk(8,arrival)/fp32"),
		Run:  device.Width(runSkipBackward[float32], runSkipBackward[float64])}

	// The chunk size is a choice like any order: the same recurrence, added by another tree. A chunk within a segment is one
	// wherever ranks may part the sequence.
	scan = &device.Kernel{Name: "ssd", Fixed: reduce.MustPlan("n:seq/fp32; steps:seq/fp32; chunk=16; within=sequence|segment"),
		Canonical: reduce.MustPlan("within=segment"),
		Run:       device.Width(runScan[float32], runScan[float64])}
	scanBackward = &device.Kernel{Name: "ssd.bwd",
		Fixed:     reduce.MustPlan("n:seq/fp32; p:seq/fp32; steps:seq/fp32; state:seq/fp32; heads:seq/fp32; chunk=16; within=sequence|segment"),
		Fast:      reduce.MustPlan("n:seq/fp32; p:seq/fp32; steps:seq/fp32; state:seq/fp32; heads:arrival/fp32; chunk=16; within=sequence|segment"),
		Canonical: reduce.MustPlan("within=segment"),
		Run:       device.Width(runScanBackward[float32], runScanBackward[float64])}

	gatedNorm = &device.Kernel{Name: "rmsnorm.gated", Fixed: reduce.MustPlan("d:seq/fp32"),
		Run: device.Width(runGatedNorm[float32], runGatedNorm[float64])}
	gatedNormBackward = &device.Kernel{Name: "rmsnorm.gated.bwd", Fixed: reduce.MustPlan("d:seq/fp32"),
		Run: device.Width(runGatedNormBackward[float32], runGatedNormBackward[float64])}
	gatedNormWeight = &device.Kernel{Name: "rmsnorm.gated.wgrad", Fixed: reduce.MustPlan("rows:seq/fp32"), Tokens: "rows",
		Fast: reduce.MustPlan("rows:splitk(8,arrival)/fp32"),
		Run:  device.Width(runGatedNormWeight[float32], runGatedNormWeight[float64])}
)

func in[T libm.Float](c *device.Call, i int) []T  { return device.Data[T](c.In[i].Tensor) }
func out[T libm.Float](c *device.Call, i int) []T { return device.Data[T](c.Out[i].Tensor) }

// given is an input that not every rank has, or nil.
func given[T libm.Float](c *device.Call, name string) []T {
	for i := range c.In {
		if c.In[i].Name == name {
			return in[T](c, i)
		}
	}
	return nil
}

// convShape rebuilds the extents from what the Call reads.
func convShape(c *device.Call, x *device.Tensor, taps int) kernel.ConvShape {
	b := int(c.Scalar("batch"))
	return kernel.ConvShape{B: b, T: x.Rows() / b, C: x.Cols(), K: taps}
}

func runConvolution[T libm.Float](c *device.Call) {
	k := c.In[1].Cols()
	kernel.CausalConv(out[T](c, 0), in[T](c, 0), given[T](c, "before"), in[T](c, 1), device.Data[T](c.Input("bias")), convShape(c, c.In[0].Tensor, k), c.Fold("taps", k))
}

func runConvolutionBackward[T libm.Float](c *device.Call) {
	k := c.In[1].Cols()
	kernel.CausalConvBackward(out[T](c, 0), in[T](c, 0), given[T](c, "after"), in[T](c, 1), convShape(c, c.In[0].Tensor, k), c.Fold("taps", k))
}

func runConvolutionWeight[T libm.Float](c *device.Call) {
	kernel.CausalConvWeightBackward(out[T](c, 0), out[T](c, 1), in[T](c, 0), in[T](c, 1), given[T](c, "before"),
		convShape(c, c.In[0].Tensor, c.Out[0].Cols()), c.Fold("rows", c.In[0].Rows()))
}

func runSiLU[T libm.Float](c *device.Call) { kernel.SiLU(out[T](c, 0), in[T](c, 0)) }
func runSiLUBackward[T libm.Float](c *device.Call) {
	kernel.SiLUBackward(out[T](c, 0), in[T](c, 0), in[T](c, 1))
}

func runTimeStep[T libm.Float](c *device.Call) {
	kernel.TimeStep(out[T](c, 0), out[T](c, 1), in[T](c, 0), in[T](c, 1), in[T](c, 2), T(c.Scalar("least")))
}

func runTimeStepBackward[T libm.Float](c *device.Call) {
	kernel.TimeStepBackward(out[T](c, 0), in[T](c, 0), in[T](c, 1), in[T](c, 2), in[T](c, 3), in[T](c, 4), T(c.Scalar("least")))
}

func runBiasBackward[T libm.Float](c *device.Call) {
	kernel.SumRows(c.Fold("rows", c.In[0].Rows()), out[T](c, 0), in[T](c, 0), c.In[0].Cols())
}

func runDecayBackward[T libm.Float](c *device.Call) {
	backward := kernel.DecayBackward[T]
	if c.Plan.Choice("coeff") == "token" {
		backward = kernel.DecayBackwardByToken[T]
	}
	backward(out[T](c, 0), in[T](c, 0), in[T](c, 1), in[T](c, 2), c.Fold("rows", c.In[0].Rows()))
}

func runSkipBackward[T libm.Float](c *device.Call) {
	x := c.In[0].Tensor
	kernel.SkipBackward(out[T](c, 0), in[T](c, 0), in[T](c, 1), c.Fold("p", x.Cols()/c.Out[0].Len()), c.Fold("rows", x.Rows()))
}

// scanShape rebuilds the extents from what the Call reads: x, b, c, dt, la, d.
func scanShape(c *device.Call) kernel.SSDShape {
	b, g, h := int(c.Scalar("batch")), int(c.Scalar("groups")), c.In[5].Len()
	s := kernel.SSDShape{B: b, T: c.In[0].Rows() / b, H: h, P: c.In[0].Cols() / h, G: g, N: c.In[1].Cols() / g}
	s.Chunk = min(c.Plan.Int("chunk"), s.T)
	if c.Plan.Choice("within") == "segment" {
		s.Chunk = min(s.Chunk, max(int(c.Scalar("steps"))/device.Segments, 1))
	}
	return s
}

func runScan[T libm.Float](c *device.Call) {
	s := scanShape(c)
	kernel.SSD(out[T](c, 0), out[T](c, 1), in[T](c, 0), in[T](c, 1), in[T](c, 2), in[T](c, 3), in[T](c, 4), in[T](c, 5), given[T](c, "begin"), s,
		kernel.SSDFolds{N: c.Fold("n", s.N), Steps: func(n int) kernel.Fold { return c.Fold("steps", n) }})
}

func runScanBackward[T libm.Float](c *device.Call) {
	s := scanShape(c)
	grad := kernel.SSDGradients[T]{X: out[T](c, 0), B: out[T](c, 1), C: out[T](c, 2), DT: out[T](c, 3), LA: out[T](c, 4)}
	begin := given[T](c, "begin")
	if begin != nil {
		grad.Begin = out[T](c, 5)
	}
	kernel.SSDBackward(grad, device.Data[T](c.Input("dy")), given[T](c, "dlast"), in[T](c, 0), in[T](c, 1), in[T](c, 2), in[T](c, 3), in[T](c, 4), in[T](c, 5), begin, s,
		kernel.SSDFolds{N: c.Fold("n", s.N), P: c.Fold("p", s.P), State: c.Fold("state", s.P*s.N), Heads: c.Fold("heads", s.H/s.G),
			Steps: func(n int) kernel.Fold { return c.Fold("steps", n) }})
}

func runGatedNorm[T libm.Float](c *device.Call) {
	d := c.In[0].Cols() / c.Out[1].Cols()
	kernel.GatedNorm(out[T](c, 0), out[T](c, 1), in[T](c, 0), in[T](c, 1), in[T](c, 2), d, T(c.Scalar("eps")), c.Fold("d", d))
}

func runGatedNormBackward[T libm.Float](c *device.Call) {
	d := c.In[0].Cols() / c.In[4].Cols()
	kernel.GatedNormBackward(out[T](c, 0), out[T](c, 1), in[T](c, 0), in[T](c, 1), in[T](c, 2), in[T](c, 3), in[T](c, 4), d, c.Fold("d", d))
}

func runGatedNormWeight[T libm.Float](c *device.Call) {
	d := c.In[0].Cols() / c.In[3].Cols()
	kernel.GatedNormWeightBackward(out[T](c, 0), in[T](c, 0), in[T](c, 1), in[T](c, 2), in[T](c, 3), d, c.Fold("rows", c.In[0].Rows()))
}
