package optim

import (
	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/nn"
	"firstbit/reduce"
	"firstbit/state"
)

// Optimizer updates the weights of a rank.
type Optimizer interface {
	// Step updates them from the gradients of iteration step, counting from 1, and returns the gradients' norm.
	Step(dev *device.Device, step int, rate float64) *device.Tensor
	// Gather makes the weights of the masters again.
	Gather(dev *device.Device)
	// States lists what it has of each parameter, in pieces: the master where there is one, the moments, and the gradient of the last step.
	States() map[*nn.Param][]device.Held
}

// held lists the states of a parameter's elements from lo on, in the order in which trainers list them. There is no gradient before the first
// step.
func held(p *nn.Param, lo int, master, m, v, grad *device.Tensor) (all []device.Held) {
	place := p.Place.From(lo)
	add := func(r state.Role, t *device.Tensor) {
		all = append(all, device.Held{Item: state.New(p.Name, r, place), Tensor: t})
	}
	if p.Master != p.W {
		add(state.Master, master)
	}
	add(state.FirstMoment, m)
	add(state.SecondMoment, v)
	if grad != nil {
		add(state.Gradient, grad)
	}
	return all
}

// AdamW holds the moments of every parameter, in parameter order.
type AdamW struct {
	Config
	Params []*nn.Param
	M, V   []*device.Tensor

	squares []*device.Tensor
}

// New makes an optimizer with zero moments.
func New(c Config, params []*nn.Param) *AdamW {
	a := &AdamW{Config: c, Params: params}
	for _, p := range params {
		a.M = append(a.M, device.NewTensor(p.Grad.Format, p.Grad.Shape()...))
		a.V = append(a.V, device.NewTensor(p.Grad.Format, p.Grad.Shape()...))
	}
	a.squares = make([]*device.Tensor, len(params))
	return a
}

var (
	sumSquares = &device.Kernel{Name: "sum_squares", In: device.Names("grad"), Out: device.Names("sum"),
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
// It returns the norm, one element. step counts from 1.
// Source: Loshchilov & Hutter 2019, decay first as in PyTorch; docs/facts.md, Training step for the clipping.
func (a *AdamW) Step(dev *device.Device, step int, rate float64) *device.Tensor {
	norm := a.norm(dev.In("grad_norm"))
	opt := dev.In("optim")
	for i, p := range a.Params {
		a.update(opt, i, p, norm, step, rate)
	}
	return norm
}

// States lists every parameter's, whole.
func (a *AdamW) States() map[*nn.Param][]device.Held {
	all := map[*nn.Param][]device.Held{}
	for i, p := range a.Params {
		all[p] = held(p, 0, p.Master, a.M[i], a.V[i], p.Grad)
	}
	return all
}

func (a *AdamW) norm(dev *device.Device) *device.Tensor {
	for i, p := range a.Params {
		c := dev.Open(p.Name, sumSquares)
		c.Read("grad", p.Grad)
		a.squares[i] = c.Write("sum", p.Grad.Format, 1)
		c.Do()
	}
	c := dev.Open("norm", gradNorm)
	for _, s := range a.squares {
		c.Read("sum", s)
	}
	norm := c.Write("norm", a.squares[0].Format, 1)
	c.Do()
	return norm
}

func (a *AdamW) update(dev *device.Device, i int, p *nn.Param, norm *device.Tensor, step int, rate float64) {
	c := dev.OpenKind(device.Optim, p.Name, adamw)
	c.Read("grad", p.Grad)
	a.Config.read(c, p, norm, p.Master, a.M[i], a.V[i], step, rate)
	if p.W != p.Master {
		c.Update("w", p.W)
	}
	c.Do()
}

// read declares what an update reads besides the gradient, and what it writes but the weight.
func (a Config) read(c *device.Call, p *nn.Param, norm, master, m, v *device.Tensor, step int, rate float64) {
	c.Read("norm", norm)
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
	device.Out[T](c, "sum")[0] = kernel.SumSquares(g, c.Fold("elements", len(g)))
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
	h := kernel.AdamWStep{
		LR: c.Scalar("lr"), Beta1: b1, Beta2: b2, Eps: c.Scalar("eps"), Decay: c.Scalar("decay"),
		Bias1: 1 - libm.IPow(b1, step), Bias2: 1 - libm.IPow(b2, step), GradScale: coef,
	}
	kernel.AdamW(device.Out[T](c, "master"), device.Out[T](c, "m"), device.Out[T](c, "v"), device.In[T](c, "grad"), h)
	if w := c.Output("w"); w != nil {
		w.CopyFrom(c.Output("master"))
	}
}
