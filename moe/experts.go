package moe

import (
	"slices"
	"strconv"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/parallel"
	"firstbit/reduce"
)

// Experts are E two-layer relu² networks, run as grouped products over rows sorted by
// expert. The routing probability multiplies the activation, before the second product.
//
//	h = x·W1_e ;  a = p·relu²(h) ;  y = a·W2_e
//
// Shapes: x (R,D), p (R), W1 (E,D,F), W2 (E,F,D) → y (R,D); L in place of D behind a Latent.
// Source: docs/facts.md, Kernels, as Megatron Core does it.
type Experts struct {
	Config
	W1, W2 *nn.Param

	// Order is the slot of each row, K slots a token; nil: every row is a token of its own.
	Order *device.Tensor

	x, h, a, prob, offsets *device.Tensor

	parts int // ranks that have a part of F each, and of the sums over it
	// Where no sum may be parted, each of these ranks multiplies with the whole of its experts' weights, and has the same of all sums.
	gathered parallel.Member
	w1, w2   operand
	// Where rows come from other ranks, or copies of them do not depend on the layout: the tokens that they are of, so many of each source; and,
	// expert by expert, where the rows of each source begin.
	tokens, bounds  *device.Tensor
	leaves, sources int
	laid            map[int]*blocks // of this backward, by their size
}

var (
	groupedNN = &device.Kernel{Name: "grouped_gemm", In: device.Names("x w offsets"), Out: device.Names("y"), Fixed: reduce.MustPlan("k:seq/fp32"), Products: []string{"k"},
		Run: device.Width(runGroupedNN[float32], runGroupedNN[float64])}
	groupedNT = &device.Kernel{Name: "grouped_gemm", In: device.Names("x w offsets"), Out: device.Names("y"), Fixed: reduce.MustPlan("k:seq/fp32"), Products: []string{"k"},
		Run: device.Width(runGroupedNT[float32], runGroupedNT[float64])}
	groupedWeight = &device.Kernel{Name: "grouped_gemm.wgrad", In: device.Names("x dy offsets order?"), Scalars: device.Names("k"),
		Out:   device.Names("dw"),
		Fixed: reduce.MustPlan("rows:seq/fp32; cut=present|all"), Products: []string{"rows"},
		Tokens: "rows", Canonical: reduce.MustPlan("cut=all"),
		Run: device.Width(runGroupedWeight[float32], runGroupedWeight[float64])}
	groupedWeightSource = groupedWeight.Taking(device.Names("x dy bounds tokens"), device.Names("leaves source sources"),
		device.Width(runGroupedWeightSource[float32], runGroupedWeightSource[float64]))
	weightedReLU2 = &device.Kernel{Name: "relu2.prob", In: device.Names("h prob"), Out: device.Names("a"),
		Run: device.Width(runWeightedReLU2[float32], runWeightedReLU2[float64])}
	weightedReLU2Backward = &device.Kernel{Name: "relu2.prob.bwd", In: device.Names("dy h prob"), Out: device.Names("dx dprob"),
		Fixed: reduce.MustPlan("n:seq/fp32"), Sharded: "n",
		Run: device.Width(runWeightedReLU2Backward[float32], runWeightedReLU2Backward[float64])}
	// The grouped product whose epilogue also makes the gradient of the routing probability.
	groupedDProbKernel = &device.Kernel{Name: "grouped_gemm", In: device.Names("dy w2 h prob offsets"),
		Scalars: device.Names("tile_m tile_n tile_sub"), Out: device.Names("dx dprob"),
		Subkernels: []device.Subkernel{{Name: "grouped_gemm.dprob", Outs: []string{"dprob"}}},
		Fixed:      reduce.MustPlan("k:seq/fp32; n:seq/fp32; tiles:seq/fp32; sched=static|dynamic|each; grid=4"),
		Fast:       reduce.MustPlan("k:seq/fp32; n:seq/fp32; tiles:arrival/fp32; sched=dynamic|static|each; grid=4"),
		Canonical:  reduce.MustPlan("sched=each"),
		Products:   []string{"k"},
		Run:        device.Width(runGroupedDProb[float32], runGroupedDProb[float64])}
)

// Forward runs every routed row through its expert.
func (x *Experts) Forward(dev *device.Device, rows, prob, offsets *device.Tensor) *device.Tensor {
	x.x, x.prob, x.offsets = rows, prob, offsets
	x.w1, x.w2 = x.whole(dev, "w1", x.W1, 2), x.whole(dev, "w2", x.W2, 1)
	x.h = x.product(dev, "w1", groupedNN, rows, &x.w1, rows.Format, x.w1.w.Cols()) // (R,F)

	c := dev.Open("act", weightedReLU2)
	c.Read("h", x.h)
	c.Read("prob", prob)
	x.a = c.Write("a", x.h.Format, x.h.Shape()...) // (R,F)
	c.Do()

	return x.product(dev, "w2", groupedNN, x.a, &x.w2, x.sumFormat(), rows.Cols()) // (R,D)
}

// sumFormat is the format of sums over F: that of the rows, or master width where parts of a sum are still to meet.
func (x *Experts) sumFormat() lowp.Format {
	if x.parts > 1 {
		return nn.MasterFormat(x.x.Format)
	}
	return x.x.Format
}

// Backward returns the gradients of the rows and of their probabilities.
func (x *Experts) Backward(dev *device.Device, dy *device.Tensor) (dx, dprob *device.Tensor) {
	clear(x.laid)
	// forward: y = a·W2
	x.accumulate(dev, "w2.grad", "w2.dw", &x.w2, x.a, dy)

	// forward: a = p·relu²(h), h = x·W1
	var dh *device.Tensor
	if x.Unfused {
		da := x.product(dev, "w2.dx", groupedNT, dy, &x.w2, x.h.Format, x.h.Cols()) // (R,F)
		dh, dprob = x.activationBackward(dev, da)
	} else {
		dh, dprob = x.fusedBackward(dev, dy)
	}

	x.accumulate(dev, "w1.grad", "w1.dw", &x.w1, x.x, dh)
	return x.product(dev, "w1.dx", groupedNT, dh, &x.w1, x.sumFormat(), x.x.Cols()), dprob
}

// fusedBackward takes dy to dh and dprob in one kernel.
func (x *Experts) fusedBackward(dev *device.Device, dy *device.Tensor) (dh, dprob *device.Tensor) {
	c := x.readGradient(dev, dy)
	c.ReadScalar("tile_m", float64(x.TileM))
	c.ReadScalar("tile_n", float64(x.TileN))
	c.ReadScalar("tile_sub", float64(x.TileSub))
	dh = c.Write("dx", x.h.Format, x.h.Shape()...)
	dprob = c.Write("dprob", x.prob.Format, x.prob.Shape()...)
	c.Do()
	return dh, dprob
}

// activationBackward takes the gradient of the activation to dh and dprob.
func (x *Experts) activationBackward(dev *device.Device, da *device.Tensor) (dh, dprob *device.Tensor) {
	c := dev.Open("act.dx", weightedReLU2Backward)
	c.Shards = max(x.parts, 1)
	c.Read("dy", da)
	c.Read("h", x.h)
	c.Read("prob", x.prob)
	dh = c.Write("dx", x.h.Format, x.h.Shape()...)
	dprob = c.Write("dprob", x.prob.Format, x.prob.Shape()...)
	c.Do()
	return dh, dprob
}

// product is a grouped product whose output has n columns in format f.
func (x *Experts) product(dev *device.Device, label string, k *device.Kernel, in *device.Tensor, w *operand, f lowp.Format, n int) *device.Tensor {
	if w.of.Quant != nil {
		return x.quantised(dev, label, k, in, w, f, n)
	}
	c := dev.Open(label, k)
	c.Read("x", in)
	c.Read("w", w.w)
	c.Read("offsets", x.offsets)
	y := c.Write("y", f, in.Rows(), n)
	c.Do()
	return y
}

// accumulate adds a weight's gradient to that of the step, or the gradients of the sources to theirs.
func (x *Experts) accumulate(dev *device.Device, label, of string, w *operand, in, dy *device.Tensor) {
	grad := x.weightGrad
	if w.of.Quant != nil {
		grad = x.quantisedWeight(dev, of, w, in, dy)
	}
	own := func(of string, source int) *device.Tensor {
		return x.gathered.OwnPart(dev, of+".own", grad(dev, of, w, in, dy, source), w.dim)
	}
	if x.sources <= 1 {
		nn.Accumulate(dev, label, w.of, own(of, 0))
		return
	}
	dw := make([]*device.Tensor, x.sources)
	for i := range dw {
		if i > 0 {
			dw[i] = own(of+".source"+strconv.Itoa(i), i)
			continue
		}
		dw[i] = own(of, i)
	}
	nn.AccumulateSources(dev, label, w.of, dw)
}

// weightGrad is a weight's gradient from the rows of one source; of one source, from all.
func (x *Experts) weightGrad(dev *device.Device, label string, w *operand, in, dy *device.Tensor, source int) *device.Tensor {
	k := groupedWeight
	if x.tokens != nil {
		k = groupedWeightSource
	}
	c := dev.Open(label, k)
	c.Read("x", in)
	c.Read("dy", dy)
	if x.tokens != nil {
		x.readSource(c, x.bounds, x.tokens, source)
	} else {
		c.Read("offsets", x.offsets)
		if x.Order != nil {
			c.Read("order", x.Order)
		}
		c.ReadScalar("k", float64(x.TopK))
	}
	dw := c.Write("dw", w.of.Grad.Format, w.w.Shape()...)
	c.Do()
	return dw
}

// readSource declares which rows are of a source, and of which tokens.
func (x *Experts) readSource(c *device.Call, bounds, tokens *device.Tensor, source int) {
	c.Read("bounds", bounds)
	c.Read("tokens", tokens)
	c.ReadScalar("leaves", float64(x.leaves))
	c.ReadScalar("source", float64(source))
	c.ReadScalar("sources", float64(x.sources))
}

func runGroupedNN[T libm.Float](c *device.Call) { runGrouped[T](c, false) }
func runGroupedNT[T libm.Float](c *device.Call) { runGrouped[T](c, true) }

func runGrouped[T libm.Float](c *device.Call, transposed bool) {
	k, n := c.Input("x").Cols(), c.Output("y").Cols()
	groupedMatMul(device.Out[T](c, "y"), device.In[T](c, "x"), device.In[T](c, "w"),
		c.Input("offsets").I32(), k, n, transposed, c.Products("k", k, c.Operands("x", "w")))
}

func runGroupedWeight[T libm.Float](c *device.Call) {
	x, dy, offsets, order := c.Input("x"), c.Input("dy"), c.Input("offsets").I32(), c.Input("order")
	m, n, dw := x.Cols(), dy.Cols(), device.Out[T](c, "dw")
	rows := rowsOf(c)
	if c.Plan.Choice("cut") == "present" {
		groupedMatMulWeight(dw, device.Data[T](x), device.Data[T](dy), offsets, m, n, rows)
		return
	}
	token := make([]int32, x.Rows()) // of each row
	k := 1
	if order != nil {
		k = int(c.Scalar("k"))
	}
	for r := range token {
		token[r] = int32(r)
		if order != nil {
			token[r] = order.I32()[r] / int32(k)
		}
	}
	groupedMatMulWeightAll(dw, device.Data[T](x), device.Data[T](dy), offsets, token, m, n, rows(len(token)/k))
}

// rowsOf is the order of a weight's gradient, for any number of rows.
func rowsOf(c *device.Call) func(n int) kernel.Fold {
	return func(n int) kernel.Fold { return c.Products("rows", n, c.Operands("x", "dy")) }
}

func runGroupedWeightSource[T libm.Float](c *device.Call) {
	sourceGradient(c, device.In[T](c, "x"), device.In[T](c, "dy"), rowsOf(c))
}

// sourceGradient is the gradient from the rows of one source, of each expert a run of its own.
func sourceGradient[T libm.Float](c *device.Call, x, dy []T, rows func(n int) kernel.Fold) {
	dw, m, n, bounds := device.Out[T](c, "dw"), c.Input("x").Cols(), c.Input("dy").Cols(), c.Input("bounds").I32()
	source, sources, leaves := int(c.Scalar("source")), int(c.Scalar("sources")), int(c.Scalar("leaves"))
	token := c.Input("tokens").I32()
	if source > 0 {
		token = slices.Clone(token)
		for i := range token {
			token[i] -= int32(source * leaves)
		}
	}
	for e := range c.Output("dw").Dim(0) {
		run := bounds[e*sources+source:][:2]
		if c.Plan.Choice("cut") == "present" {
			groupedMatMulWeight(dw[e*m*n:][:m*n], x, dy, run, m, n, rows)
			continue
		}
		groupedMatMulWeightAll(dw[e*m*n:][:m*n], x, dy, run, token, m, n, rows(leaves))
	}
}

func runWeightedReLU2[T libm.Float](c *device.Call) {
	a := device.Out[T](c, "a")
	nn.ReLU2(a, device.In[T](c, "h"))
	mulRows(a, a, device.In[T](c, "prob"), c.Input("h").Cols())
}

func runWeightedReLU2Backward[T libm.Float](c *device.Call) {
	f := c.Input("h").Cols()
	reluProbBackward(device.Out[T](c, "dx"), device.Out[T](c, "dprob"), device.In[T](c, "dy"), device.In[T](c, "h"), device.In[T](c, "prob"), c.Fold("n", f))
}
