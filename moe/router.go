package moe

import (
	"firstbit/device"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/parallel"
	"firstbit/reduce"
)

// Router chooses K of E experts for every token and says with which probability.
//
//	logits = x·Wᵀ               in fp32, rounded to router_dtype
//	s      = sigmoid(logits)    or softmax
//	choose the K largest of s + bias, of kept groups where there are groups
//	p      = scaling·s/(Σ_chosen s + 1e-20)   (sigmoid and K > 1; else scaling·s)
//
// With softmax_topk the K largest of logits + bias are chosen and p = scaling·softmax over them.
//
// Shapes: x (T,D), W (E,D) → index (T,K), p (T,K).
// Source: docs/facts.md, Model.
type Router struct {
	Config
	W    *nn.Param
	Bias *device.Tensor // (E) added for the choice only
	// Tokens counts how many tokens chose each expert since the bias was last moved.
	Tokens *device.Tensor
	// Sequence is the tokens of a sequence, which the loss by sequence has to know.
	Sequence int
	// TP and CP are the ranks with the other tokens of the microbatch, which has Batch sequences. A rank routes its own
	// tokens; the losses are of the microbatch, alike on each of them.
	TP, CP parallel.Member
	Batch  int

	routed
}

// routed is what a forward leaves for its backward.
type routed struct {
	x, logits, scores, index, chosen, sum, prob *device.Tensor
	share, counts, weights                      *device.Tensor
	allLogits, allScores                        *device.Tensor // of the microbatch
}

var (
	sigmoidKernel = &device.Kernel{Name: "sigmoid", ByToken: true, In: device.Names("logits"), Out: device.Names("scores"),
		Run: device.Width(runSigmoid[float32], runSigmoid[float64])}
	softmaxKernel = &device.Kernel{Name: "softmax", ByToken: true, In: device.Names("logits"), Out: device.Names("scores"),
		Fixed: reduce.MustPlan("experts:seq/fp32"),
		Run:   device.Width(runSoftmax[float32], runSoftmax[float64])}
	topkKernel = &device.Kernel{Name: "topk", ByToken: true, In: device.Names("scores bias"), Scalars: device.Names("k"), Out: device.Names("index"),
		Fixed: reduce.MustPlan("fused=false|true; tie=native|low; slots=value|index; sort=false|true"),
		Fast:  reduce.MustPlan("fused=true|false; tie=native|low; slots=value|index; sort=false|true"), Run: device.Width(runTopK[float32], runTopK[float64])}
	gatherKernel = &device.Kernel{Name: "gather", ByToken: true, In: device.Names("scores index"), Out: device.Names("chosen"),
		Run: device.Width(runGather[float32], runGather[float64])}
	normalizeKernel = &device.Kernel{Name: "normalize", ByToken: true, In: device.Names("chosen"), Scalars: device.Names("scaling normalized"),
		Out:   device.Names("prob sum"),
		Fixed: reduce.MustPlan("slots:seq/fp32"),
		Run:   device.Width(runNormalize[float32], runNormalize[float64])}
)

// Forward routes x.
func (r *Router) Forward(dev *device.Device, x *device.Tensor) (index, prob *device.Tensor) {
	dev.CutColumns(0, 1) // every rank computes all experts' columns
	r.x = x
	format := nn.MasterFormat(x.Format)
	if r.RouterDtype == "bf16" && format != lowp.FP64 {
		format = lowp.BF16
	}
	r.logits = nn.Multiply(nn.NT, x, r.W.W).In(format).Run(dev, "logits") // (T,E)
	r.scores = r.score(dev)                                               // (T,E)
	r.index = r.choose(dev)                                               // (T,K)
	r.chosen = r.gather(dev)                                              // (T,K)
	r.prob = r.normalize(dev)                                             // (T,K)
	return r.index, r.prob
}

func (r *Router) score(dev *device.Device) *device.Tensor {
	k := softmaxKernel
	if r.Router == "sigmoid" {
		k = sigmoidKernel
	}
	c := dev.Open("scores", k)
	c.Read("logits", r.logits)
	s := c.Write("scores", nn.MasterFormat(r.x.Format), r.logits.Shape()...)
	c.Do()
	return s
}

// chosenBy is what the choice compares and the probabilities are made of. Scores of softmax_topk
// serve the load-balancing loss alone.
func (r *Router) chosenBy() *device.Tensor {
	if r.Router == "softmax_topk" {
		return r.logits
	}
	return r.scores
}

func (r *Router) choose(dev *device.Device) *device.Tensor {
	if r.grouped() {
		return r.topkOfGroups(dev, r.keptGroups(dev))
	}
	c := dev.Open("topk", topkKernel)
	c.Read("scores", r.chosenBy())
	c.Read("bias", r.Bias)
	c.ReadScalar("k", float64(r.TopK))
	index := c.Write("index", lowp.INT32, r.scores.Rows(), r.TopK)
	c.Do()
	return index
}

func (r *Router) gather(dev *device.Device) *device.Tensor {
	c := dev.Open("chosen", gatherKernel)
	c.Read("scores", r.chosenBy())
	c.Read("index", r.index)
	s := c.Write("chosen", r.scores.Format, r.index.Shape()...)
	c.Do()
	return s
}

func (r *Router) normalized() bool { return r.TopK > 1 && r.Router == "sigmoid" }

func (r *Router) normalize(dev *device.Device) *device.Tensor {
	if r.Router == "softmax_topk" {
		return r.softmaxOfChosen(dev)
	}
	c := dev.Open("prob", normalizeKernel)
	c.Read("chosen", r.chosen)
	c.ReadScalar("scaling", r.Scaling)
	c.ReadScalar("normalized", b2f(r.normalized()))
	p := c.Write("prob", r.chosen.Format, r.chosen.Shape()...)
	r.sum = c.Write("sum", r.chosen.Format, r.chosen.Rows())
	c.Do()
	return p
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func runSigmoid[T libm.Float](c *device.Call) {
	sigmoid(device.Out[T](c, "scores"), device.In[T](c, "logits"))
}

func runSoftmax[T libm.Float](c *device.Call) {
	e := c.Input("logits").Cols()
	softmax(device.Out[T](c, "scores"), device.In[T](c, "logits"), e, c.Fold("experts", e))
}

// tieRule is how the Plan breaks exact ties: by one rule, or as the kernel it
// names does of itself.
func tieRule(p reduce.Plan) tie {
	if p.Choice("tie") == "native" && p.Choice("fused") == "true" {
		return tieNaive
	}
	return tieLow
}

// inSlots puts what was chosen into the slots that the Plan says: as a kernel leaves it, the largest value
// first or by index; or sorted by index, whatever the kernel.
func inSlots(c *device.Call) {
	if index := c.Output("index"); c.Plan.Choice("slots") == "index" || c.Plan.Choice("sort") == "true" {
		sortSlots(index.I32(), index.Cols())
	}
}

func runTopK[T libm.Float](c *device.Call) {
	s := c.Input("scores")
	topK(c.Output("index").I32(), device.Data[T](s), device.In[T](c, "bias"), s.Cols(), int(c.Scalar("k")), tieRule(c.Plan))
	inSlots(c)
}

func runGather[T libm.Float](c *device.Call) {
	s, index := c.Input("scores"), c.Input("index")
	gather(device.Out[T](c, "chosen"), device.Data[T](s), index.I32(), s.Cols(), index.Cols())
}

func runNormalize[T libm.Float](c *device.Call) {
	p, s := device.Out[T](c, "prob"), device.In[T](c, "chosen")
	scaling := T(c.Scalar("scaling"))
	if c.Scalar("normalized") == 0 {
		clear(device.Out[T](c, "sum")) // which nobody reads
		scale(p, s, scaling)
		return
	}
	k := c.Input("chosen").Cols()
	normalize(p, device.Out[T](c, "sum"), s, k, scaling, c.Fold("slots", k))
}
