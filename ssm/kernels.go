package ssm

import (
	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/reduce"
)

var (
	convolution = &device.Kernel{Name: "causal_conv1d", ByToken: true, In: device.Names("x w before? bias starts?"), Scalars: device.Names("first? batch"), Out: device.Names("y"),
		Fixed: reduce.MustPlan("taps:seq/fp32"),
		Run:   device.Width(runConvolution[float32], runConvolution[float64])}
	convolutionBackward = &device.Kernel{Name: "causal_conv1d.bwd", ByToken: true, In: device.Names("dy w after? starts?"), Scalars: device.Names("first? batch"), Out: device.Names("dx"),
		Fixed: reduce.MustPlan("taps:seq/fp32"),
		Run:   device.Width(runConvolutionBackward[float32], runConvolutionBackward[float64])}
	convolutionWeight = &device.Kernel{Name: "causal_conv1d.wgrad", In: device.Names("dy x before? starts?"), Scalars: device.Names("first? batch"), Out: device.Names("dw dbias"),
		Fixed: reduce.MustPlan("rows:seq/fp32"), Tokens: "rows",
		Fast: reduce.MustPlan("rows:splitk(8,arrival)/fp32"),
		Run:  device.Width(runConvolutionWeight[float32], runConvolutionWeight[float64])}
	siluKernel         = &device.Kernel{Name: "silu", ByToken: true, In: device.Names("x"), Out: device.Names("y"), Run: device.Width(runSiLU[float32], runSiLU[float64])}
	siluBackwardKernel = &device.Kernel{Name: "silu.bwd", ByToken: true, In: device.Names("dy x"), Out: device.Names("dx"),
		Run: device.Width(runSiLUBackward[float32], runSiLUBackward[float64])}

	timeStepKernel = &device.Kernel{Name: "time_step", ByToken: true, In: device.Names("raw bias a_log"), Scalars: device.Names("least"), Out: device.Names("dt la"),
		Run: device.Width(runTimeStep[float32], runTimeStep[float64])}
	timeStepBackwardKernel = &device.Kernel{Name: "time_step.bwd", ByToken: true, In: device.Names("ddt dla raw bias a_log"), Scalars: device.Names("least"), Out: device.Names("draw"),
		Run: device.Width(runTimeStepBackward[float32], runTimeStepBackward[float64])}
	biasBackward = &device.Kernel{Name: "ssd.ddt_bias", In: device.Names("dy"), Out: device.Names("db"),
		Fixed: reduce.MustPlan("rows:seq/fp32"), Tokens: "rows",
		Fast: reduce.MustPlan("rows:splitk(8,arrival)/fp32"),
		Run:  device.Width(runBiasBackward[float32], runBiasBackward[float64])}
	decayBackwardKernel = &device.Kernel{Name: "ssd.dA", In: device.Names("dla dt a_log"), Out: device.Names("da"),
		Fixed: reduce.MustPlan("rows:seq/fp32; coeff=sum|token"), Tokens: "rows",
		Fast: reduce.MustPlan("rows:splitk(8,arrival)/fp32; coeff=sum|token"), Canonical: reduce.MustPlan("coeff=token"),
		Run: device.Width(runDecayBackward[float32], runDecayBackward[float64])}
	skipBackwardKernel = &device.Kernel{Name: "ssd.dD", In: device.Names("dy x"), Out: device.Names("dd"),
		Fixed: reduce.MustPlan("p:seq/fp32; rows:seq/fp32"), Tokens: "rows",
		Fast: reduce.MustPlan("p:seq/fp32; rows:splitk(8,arrival)/fp32"),
		Run:  device.Width(runSkipBackward[float32], runSkipBackward[float64])}

	// The chunk size is a choice like any order: the same recurrence, added by another tree. A chunk within a segment is one
	// wherever ranks may part the sequence.
	scan = &device.Kernel{Name: "ssd", ByToken: true, In: device.Names("x b c dt la d begin? starts?"), Scalars: device.Names("first? batch groups steps"), Out: device.Names("y last"),
		Fixed:     reduce.MustPlan("n:seq/fp32; steps:seq/fp32; chunk=16; within=sequence|segment"),
		Products:  []string{"n", "steps"},
		Canonical: reduce.MustPlan("within=segment"),
		Run:       device.Width(runScan[float32], runScan[float64])}
	scanBackward = &device.Kernel{Name: "ssd.bwd", ByToken: true, In: device.Names("x b c dt la d begin? starts? dy dlast?"),
		Scalars: device.Names("first? batch groups steps"), Out: device.Names("dx db dc ddt dla dbegin?"),
		Fixed:     reduce.MustPlan("n:seq/fp32; p:seq/fp32; steps:seq/fp32; state:seq/fp32; heads:seq/fp32; chunk=16; within=sequence|segment"),
		Products:  []string{"n", "p", "steps", "state"},
		Fast:      reduce.MustPlan("n:seq/fp32; p:seq/fp32; steps:seq/fp32; state:seq/fp32; heads:arrival/fp32; chunk=16; within=sequence|segment"),
		Canonical: reduce.MustPlan("within=segment"),
		Run:       device.Width(runScanBackward[float32], runScanBackward[float64])}

	gatedNormKernel = &device.Kernel{Name: "rmsnorm.gated", ByToken: true, In: device.Names("x z w"), Scalars: device.Names("eps"), Out: device.Names("y rstd"),
		Fixed: reduce.MustPlan("d:seq/fp32"),
		Run:   device.Width(runGatedNorm[float32], runGatedNorm[float64])}
	gatedNormBackwardKernel = &device.Kernel{Name: "rmsnorm.gated.bwd", ByToken: true, In: device.Names("dy x z w rstd"), Out: device.Names("dx dz"),
		Fixed: reduce.MustPlan("d:seq/fp32"),
		Run:   device.Width(runGatedNormBackward[float32], runGatedNormBackward[float64])}
	gatedNormWeight = &device.Kernel{Name: "rmsnorm.gated.wgrad", In: device.Names("dy x z rstd"), Out: device.Names("dw"),
		Fixed: reduce.MustPlan("rows:seq/fp32"), Tokens: "rows",
		Fast: reduce.MustPlan("rows:splitk(8,arrival)/fp32"),
		Run:  device.Width(runGatedNormWeight[float32], runGatedNormWeight[float64])}
)

// convShapeOf rebuilds the extents from what the Call reads.
func convShapeOf(c *device.Call, x *device.Tensor, taps int) convShape {
	b := int(c.Scalar("batch"))
	return convShape{B: b, T: x.Rows() / b, C: x.Cols(), K: taps, documents: documentsOf(c)}
}

func runConvolution[T libm.Float](c *device.Call) {
	k := c.Input("w").Cols()
	causalConv(device.Out[T](c, "y"), device.In[T](c, "x"), device.In[T](c, "before"), device.In[T](c, "w"), device.In[T](c, "bias"),
		convShapeOf(c, c.Input("x"), k), c.Fold("taps", k))
}

func runConvolutionBackward[T libm.Float](c *device.Call) {
	k := c.Input("w").Cols()
	causalConvBackward(device.Out[T](c, "dx"), device.In[T](c, "dy"), device.In[T](c, "after"), device.In[T](c, "w"),
		convShapeOf(c, c.Input("dy"), k), c.Fold("taps", k))
}

func runConvolutionWeight[T libm.Float](c *device.Call) {
	causalConvWeightBackward(device.Out[T](c, "dw"), device.Out[T](c, "dbias"), device.In[T](c, "dy"), device.In[T](c, "x"), device.In[T](c, "before"),
		convShapeOf(c, c.Input("dy"), c.Output("dw").Cols()), c.Fold("rows", c.Input("dy").Rows()))
}

func runSiLU[T libm.Float](c *device.Call) { silu(device.Out[T](c, "y"), device.In[T](c, "x")) }
func runSiLUBackward[T libm.Float](c *device.Call) {
	siluBackward(device.Out[T](c, "dx"), device.In[T](c, "dy"), device.In[T](c, "x"))
}

func runTimeStep[T libm.Float](c *device.Call) {
	timeStep(device.Out[T](c, "dt"), device.Out[T](c, "la"), device.In[T](c, "raw"), device.In[T](c, "bias"), device.In[T](c, "a_log"), T(c.Scalar("least")))
}

func runTimeStepBackward[T libm.Float](c *device.Call) {
	timeStepBackward(device.Out[T](c, "draw"), device.In[T](c, "ddt"), device.In[T](c, "dla"),
		device.In[T](c, "raw"), device.In[T](c, "bias"), device.In[T](c, "a_log"), T(c.Scalar("least")))
}

func runBiasBackward[T libm.Float](c *device.Call) {
	kernel.SumRows(c.Fold("rows", c.Input("dy").Rows()), device.Out[T](c, "db"), device.In[T](c, "dy"), c.Input("dy").Cols())
}

func runDecayBackward[T libm.Float](c *device.Call) {
	backward := decayBackward[T]
	if c.Plan.Choice("coeff") == "token" {
		backward = decayBackwardByToken[T]
	}
	backward(device.Out[T](c, "da"), device.In[T](c, "dla"), device.In[T](c, "dt"), device.In[T](c, "a_log"), c.Fold("rows", c.Input("dla").Rows()))
}

func runSkipBackward[T libm.Float](c *device.Call) {
	x := c.Input("dy")
	skipBackward(device.Out[T](c, "dd"), device.In[T](c, "dy"), device.In[T](c, "x"), c.Fold("p", x.Cols()/c.Output("dd").Len()), c.Fold("rows", x.Rows()))
}

// scanShape rebuilds the extents from what the Call reads: x, b, c, dt, la, d.
func scanShape(c *device.Call) ssdShape {
	b, g, h := int(c.Scalar("batch")), int(c.Scalar("groups")), c.Input("d").Len()
	s := ssdShape{B: b, T: c.Input("x").Rows() / b, H: h, P: c.Input("x").Cols() / h, G: g, N: c.Input("b").Cols() / g, documents: documentsOf(c)}
	s.Chunk = min(c.Plan.Int("chunk"), s.T)
	if c.Plan.Choice("within") == "segment" {
		s.Chunk = min(s.Chunk, max(int(c.Scalar("steps"))/device.Segments, 1))
	}
	return s
}

func runScan[T libm.Float](c *device.Call) {
	s := scanShape(c)
	in := func(name string) []T { return device.In[T](c, name) }
	ssd(device.Out[T](c, "y"), device.Out[T](c, "last"), in("x"), in("b"), in("c"), in("dt"), in("la"), in("d"), in("begin"), s,
		ssdFolds{N: c.Fold("n", s.N), Steps: func(n int) kernel.Fold { return c.Fold("steps", n) }})
}

func runScanBackward[T libm.Float](c *device.Call) {
	s := scanShape(c)
	in := func(name string) []T { return device.In[T](c, name) }
	out := func(name string) []T { return device.Out[T](c, name) }
	grad := ssdGradients[T]{X: out("dx"), B: out("db"), C: out("dc"), DT: out("ddt"), LA: out("dla"), Begin: out("dbegin")}
	ssdBackward(grad, in("dy"), in("dlast"), in("x"), in("b"), in("c"), in("dt"), in("la"), in("d"), in("begin"), s,
		ssdFolds{N: c.Fold("n", s.N), P: c.Fold("p", s.P), State: c.Fold("state", s.P*s.N), Heads: c.Fold("heads", s.H/s.G),
			Steps: func(n int) kernel.Fold { return c.Fold("steps", n) }})
}

func runGatedNorm[T libm.Float](c *device.Call) {
	d := c.Input("x").Cols() / c.Output("rstd").Cols()
	gatedNorm(device.Out[T](c, "y"), device.Out[T](c, "rstd"), device.In[T](c, "x"), device.In[T](c, "z"), device.In[T](c, "w"),
		d, T(c.Scalar("eps")), c.Fold("d", d))
}

func runGatedNormBackward[T libm.Float](c *device.Call) {
	d := c.Input("dy").Cols() / c.Input("rstd").Cols()
	gatedNormBackward(device.Out[T](c, "dx"), device.Out[T](c, "dz"), device.In[T](c, "dy"), device.In[T](c, "x"), device.In[T](c, "z"),
		device.In[T](c, "w"), device.In[T](c, "rstd"), d, c.Fold("d", d))
}

func runGatedNormWeight[T libm.Float](c *device.Call) {
	d := c.Input("dy").Cols() / c.Input("rstd").Cols()
	gatedNormWeightBackward(device.Out[T](c, "dw"), device.In[T](c, "dy"), device.In[T](c, "x"), device.In[T](c, "z"), device.In[T](c, "rstd"),
		d, c.Fold("rows", c.Input("dy").Rows()))
}
