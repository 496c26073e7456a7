package moe

import (
	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/reduce"
)

var (
	shareKernel = &device.Kernel{Name: "prob_share", ByToken: true, In: device.Names("scores"), Out: device.Names("share"),
		Fixed: reduce.MustPlan("experts:seq/fp32"),
		Run:   device.Width(runShare[float32], runShare[float64])}
	countsKernel = &device.Kernel{Name: "counts", In: device.Names("index"), Out: device.Names("counts"), Run: runCounts}
	// The fused loss of docs/facts.md, Kernels: a grid of CTAs, each adding its partial to the total as it comes.
	auxKernel = &device.Kernel{Name: "fused_aux_loss", In: device.Names("share counts"), Scalars: device.Names("coeff"), Out: device.Names("loss"),
		Fixed:     reduce.MustPlan("rows:seq/fp32; experts:lanes(32)/fp32; ctas:seq/fp32; sequences:seq/fp32; by=position|sequence; grid=8"),
		Fast:      reduce.MustPlan("rows:seq/fp32; experts:lanes(32)/fp32; ctas:arrival/fp32; sequences:seq/fp32; by=position|sequence; grid=8"),
		Canonical: reduce.MustPlan("sequences:pairwise/fp32; by=sequence"),
		Run:       device.Width(runAux[float32], runAux[float64])}
	zKernel = &device.Kernel{Name: "z_loss", In: device.Names("logits"), Scalars: device.Names("coeff"), Out: device.Names("loss"),
		Fixed:  reduce.MustPlan("experts:seq/fp32; tokens:seq/fp32; coeff=sum|token"),
		Tokens: "tokens", Canonical: reduce.MustPlan("coeff=token"),
		Run: device.Width(runZ[float32], runZ[float64])}
	topkUnbiased = &device.Kernel{Name: "topk", ByToken: true, In: device.Names("scores"), Scalars: device.Names("k"), Out: device.Names("index"),
		Fixed: topkKernel.Fixed, Fast: topkKernel.Fast,
		Run: device.Width(runTopKUnbiased[float32], runTopKUnbiased[float64])}
)

// Losses adds what the router owes for imbalance and for large logits.
//
//	aux = Σ_i (Σ_t P_ti)·n_i · E·coeff/(K·T²)   P: a token's scores as shares of their sum
//	z   = coeff·mean_t(logsumexp(logits_t)²)
//
// n counts the choices of the unbiased scores over all experts, groups or not; T the tokens
// of the microbatch, on however many ranks these are. By sequence, T and n are a sequence's and aux is the mean over sequences.
// Source: docs/facts.md, Model and Kernels; Megatron Core chooses for the loss without groups.
func (r *Router) Losses(dev *device.Device) (aux, z *device.Tensor) {
	f := r.scores.Format
	r.allLogits, r.allScores = r.gatherRows(dev, "logits", r.logits), r.gatherRows(dev, "scores", r.scores)
	r.share = r.allScores
	if r.Router == "sigmoid" {
		c := dev.Open("share", shareKernel)
		c.Read("scores", r.allScores)
		r.share = c.Write("share", f, r.allScores.Shape()...)
		c.Do()
	}
	r.counts = r.count(dev, r.unbiased(dev))

	c := dev.Open("aux_loss", auxKernel)
	c.Read("share", r.share)
	c.Read("counts", r.counts)
	c.ReadScalar("coeff", r.auxFactor())
	aux = c.Write("loss", f, 1)
	c.Do()

	c = dev.Open("z_loss", zKernel)
	c.Read("logits", r.allLogits)
	c.ReadScalar("coeff", r.ZCoeff)
	z = c.Write("loss", f, 1)
	c.Do()
	return aux, z
}

// alone tells whether the rank has the whole microbatch.
func (r *Router) alone() bool { return r.TP.Size() == 1 && r.CP.Size() == 1 }

// gatherRows is the rows of the microbatch, of which the rank has some.
func (r *Router) gatherRows(dev *device.Device, label string, x *device.Tensor) *device.Tensor {
	if r.alone() {
		return x
	}
	return r.CP.Gather(dev, label+".cp", r.TP.Gather(dev, label+".tp", x, 1), r.Batch)
}

// ownRows is the rank's rows of the microbatch's.
func (r *Router) ownRows(dev *device.Device, label string, x *device.Tensor) *device.Tensor {
	if r.alone() {
		return x
	}
	return r.TP.Slice(dev, label+".tp", r.CP.Slice(dev, label+".cp", x, r.Batch), 1)
}

// unbiased is the choice by the scores alone.
func (r *Router) unbiased(dev *device.Device) *device.Tensor {
	c := dev.Open("topk_unbiased", topkUnbiased)
	c.Read("scores", r.allScores)
	c.ReadScalar("k", float64(r.TopK))
	index := c.Write("index", lowp.INT32, r.allScores.Rows(), r.TopK)
	c.Do()
	return index
}

// count counts the choices of the microbatch (E), or of each sequence (B,E).
func (r *Router) count(dev *device.Device, index *device.Tensor) *device.Tensor {
	c := dev.Open("counts", countsKernel)
	c.Read("index", index)
	n := r.countsOf(c)
	c.Do()
	return n
}

func (r *Router) countsOf(c *device.Call) *device.Tensor {
	if r.Aux != "sequence" {
		return c.Write("counts", lowp.INT32, r.Experts)
	}
	if r.Sequence < 1 || r.allScores.Rows()%r.Sequence != 0 {
		panic("moe: the loss by sequence needs whole sequences of Router.Sequence tokens")
	}
	return c.Write("counts", lowp.INT32, r.allScores.Rows()/r.Sequence, r.Experts)
}

// auxFactor is C = E·coeff/(K·T²), T the tokens the loss is of.
func (r *Router) auxFactor() float64 {
	t := float64(r.allScores.Rows() / r.counts.Rows())
	return float64(r.Experts) * r.AuxCoeff / (float64(r.TopK) * t * t)
}

func runShare[T libm.Float](c *device.Call) {
	e := c.Input("scores").Cols()
	probShare(device.Out[T](c, "share"), device.In[T](c, "scores"), e, c.Fold("experts", e))
}

func runCounts(c *device.Call) {
	n := c.Output("counts")
	index, e := c.Input("index").I32(), n.Cols()
	each := len(index) / n.Rows()
	for b := range n.Rows() {
		counts(n.I32()[b*e:][:e], index[b*each:][:each])
	}
}

func runTopKUnbiased[T libm.Float](c *device.Call) {
	s := c.Input("scores")
	topK(c.Output("index").I32(), device.Data[T](s), nil, s.Cols(), int(c.Scalar("k")), tieRule(c.Plan))
	inSlots(c)
}

func runAux[T libm.Float](c *device.Call) {
	share := c.Input("share")
	e, grid := share.Cols(), c.Plan.Int("grid")
	counts := c.Input("counts")
	ctas := c.Fold("ctas", min(grid, share.Rows()/counts.Rows()))
	var probe func(cta int, partial T)
	if c.Probe != nil {
		probe = func(cta int, partial T) { c.Probe(onePartial(cta, partial)) }
	}
	loss, coeff, rows := device.Out[T](c, "loss"), T(c.Scalar("coeff")), func(n int) kernel.Fold { return c.Fold("rows", n) }
	if c.Plan.Choice("by") == "sequence" {
		loss[0] = auxLossBySequence(device.Data[T](share), counts.I32(), e, grid, coeff,
			rows, c.Fold("experts", e), ctas, c.Fold("sequences", counts.Rows()), probe)
		return
	}
	loss[0] = auxLoss(device.Data[T](share), counts.I32(), e, grid, coeff, rows, c.Fold("experts", counts.Len()), ctas, probe)
}

func onePartial[T libm.Float](tile int, v T) device.Partial {
	p := device.Partial{Tile: tile}
	if x, ok := any(v).(float32); ok {
		p.F32 = []float32{x}
	} else {
		p.F64 = []float64{float64(v)}
	}
	return p
}

func runZ[T libm.Float](c *device.Call) {
	l := c.Input("logits")
	z := zLoss[T]
	if c.Plan.Choice("coeff") == "token" {
		z = zLossByToken[T]
	}
	device.Out[T](c, "loss")[0] = z(device.Data[T](l), l.Cols(), T(c.Scalar("coeff")), c.Fold("experts", l.Cols()), c.Fold("tokens", l.Rows()))
}
