package optim

import (
	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/nn"
	"firstbit/parallel"
	"firstbit/reduce"
	"firstbit/state"
)

// AdamW updates the weights of a rank. Over several ranks each updates a shard of its parameters: gradients are added bucket by bucket into
// shards over the ranks that have the same parameters, the shards' weights are updated and gathered again. A group of one has all, and
// neither adds nor gathers. Where it is replicated each rank gets the whole sum, updates all its weights, and gathers nothing: ranks have the
// same weights as long as all do the same.
//
// Source: docs/facts.md, Training step; Rajbhandari et al. 2020, "ZeRO".
type AdamW struct {
	Config
	Buckets []*Bucket

	// Labels are those of the step, which gradients are divided by once they are summed; nil: they were divided in the backward.
	Labels *device.Tensor

	// Canonical makes every bit independent of the layout: see canonical.go.
	Canonical bool

	Scale *LossScale // of the gradients that it gets; nil: they have none

	rank  parallel.Rank
	parts []normPart
	early *early // nil: gradients are added once the step's backward is over

	sums, totals, grads []*device.Tensor // of the norm at hand
	divided             []device.Arg
}

var (
	sumSquaresKernel = &device.Kernel{Name: "sum_squares", In: device.Names("grad"), Out: device.Names("sum"),
		Fixed: reduce.MustPlan("elements:lanes(8)/fp32"),
		Run:   device.Width(runSquares[float32], runSquares[float64])}
	gradNorm = &device.Kernel{Name: "grad_norm", In: device.Names("sum..."), Out: device.Names("norm"), Fixed: reduce.MustPlan("params:seq/fp32"),
		Run: device.Width(runNorm[float32], runNorm[float64])}
	adamw = &device.Kernel{Name: "adamw", In: device.Names("grad norm master m v"), Scalars: device.Names("lr step beta1 beta2 eps clip decay"), Out: device.Names("master m v w?"),
		Run: device.Width(runAdamW[float32], runAdamW[float64])}
)

// Step updates every master and weight from its gradient.
//
//	norm  = √Σ g²                    over all parameters
//	coef  = min(1, clip/(norm+1e-6)) multiplies every gradient
//	m, v  = β1·m+(1−β1)·g, β2·v+(1−β2)·g²
//	w    -= lr·decay·w + lr·m̂/(√v̂+ε)
//
// It returns the norm, one element, and whether the step was taken: one with an overflow is skipped, and updates nothing. Collectives are those of
// every step. step counts from 1.
// Source: Loshchilov & Hutter 2019, decay first as in PyTorch; docs/facts.md, Training step for the clipping.
func (a *AdamW) Step(dev *device.Device, step int, rate float64) (norm *device.Tensor, taken bool) {
	a.reduce(dev.In("grads"))
	if a.Labels != nil {
		a.divide(dev.In("normaliser"))
	}
	taken = a.Scale == nil || a.Scale.unscale(dev, a.Buckets, a.rank.All())
	norm = a.norm(dev.In("grad_norm"))
	opt, weights := dev.In("optim"), dev.In("weights")
	for _, b := range a.Buckets {
		for _, s := range b.Segments {
			if taken {
				a.update(opt, s, norm, step, rate)
			}
		}
		b.gather(weights, b.weights)
	}
	return norm, taken
}

func (a *AdamW) update(dev *device.Device, s *Segment, norm *device.Tensor, step int, rate float64) {
	c := dev.OpenKind(device.Optim, s.Param.Name, adamw)
	c.Weight = &s.place
	c.Read("grad", s.gradient())
	a.Config.read(c, s.Param, norm, s.Master, s.M, s.V, step, rate)
	if s.w != s.Master {
		c.Update("w", s.w)
	}
	c.Do()
}

// States lists what the rank has of each parameter, in pieces: the master where there is one, and the moments. They are in the same tensors in
// every step.
func (a *AdamW) States() map[*nn.Param][]device.Held {
	all := map[*nn.Param][]device.Held{}
	for _, b := range a.Buckets {
		for _, s := range b.Segments {
			if p := s.Param; p.Master != p.W {
				all[p] = append(all[p], s.held(state.Master, s.Master))
			}
			all[s.Param] = append(all[s.Param], s.held(state.FirstMoment, s.M), s.held(state.SecondMoment, s.V))
		}
	}
	return all
}

// Gradients lists the pieces of the last step's gradients; none before the first step.
func (a *AdamW) Gradients() (all []device.Held) {
	for _, b := range a.Buckets {
		for _, s := range b.Segments {
			if g := s.gradient(); g != nil {
				all = append(all, s.held(state.Gradient, g))
			}
		}
	}
	return all
}

// held is a state of the segment's elements.
func (s *Segment) held(r state.Role, t *device.Tensor) device.Held {
	return device.Held{Item: state.New(s.Param.Name, r, s.place), Tensor: t}
}

// read declares what an update reads besides the gradient, and what it writes but the weight.
func (a Config) read(c *device.Call, p *nn.Param, norm, master, m, v *device.Tensor, step int, rate float64) {
	c.Read("norm", norm)
	if master.From == "" { // a piece that no update has written yet, of what was drawn or loaded
		master.From = p.Master.From
	}
	c.Read("master", master)
	c.Read("m", m)
	c.Read("v", v)
	c.ReadScalar("lr", rate)
	c.ReadScalar("step", float64(step))
	c.ReadScalar("beta1", a.Beta1)
	c.ReadScalar("beta2", a.Beta2)
	c.ReadScalar("eps", a.Eps)
	c.ReadScalar("clip", a.Clip)
	decay := 0.0
	if p.Decay {
		decay = a.Weight
	}
	c.ReadScalar("decay", decay)
	c.Update("master", master)
	c.Update("m", m)
	c.Update("v", v)
}

func runSquares[T libm.Float](c *device.Call) {
	g := device.In[T](c, "grad")
	device.Out[T](c, "sum")[0] = sumSquares(g, c.Fold("elements", len(g)))
}

func runNorm[T libm.Float](c *device.Call) {
	sums := c.Inputs("sum")
	sum := kernel.Run(c.Fold("params", len(sums)), func(i int) T { return device.Data[T](sums[i].Tensor)[0] })
	device.Out[T](c, "norm")[0] = root(sum)
}

func runAdamW[T libm.Float](c *device.Call) {
	norm := float64(device.In[T](c, "norm")[0])
	coef := 1.0
	if clip := c.Scalar("clip"); clip > 0 {
		coef = min(1, clip/(norm+1e-6))
	}
	step := int(c.Scalar("step"))
	b1, b2 := c.Scalar("beta1"), c.Scalar("beta2")
	h := adamWStep{
		LR: c.Scalar("lr"), Beta1: b1, Beta2: b2, Eps: c.Scalar("eps"), Decay: c.Scalar("decay"),
		Bias1: 1 - libm.IPow(b1, step), Bias2: 1 - libm.IPow(b2, step), GradScale: coef,
	}
	updateAdamW(device.Out[T](c, "master"), device.Out[T](c, "m"), device.Out[T](c, "v"), device.In[T](c, "grad"), h)
	if w := c.Output("w"); w != nil {
		w.CopyFrom(c.Output("master"))
	}
}
