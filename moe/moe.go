package moe

import (
	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/parallel"
	"firstbit/reduce"
)

// MoE routes each token to K experts and adds a shared expert that every token sees.
//
//	y = Σ_slots experts(x)·p + shared(x)
//
// With a latent the experts see x·Down, and what they sum to is multiplied by Up.
//
// Experts may lie on several ranks: rows go to the owners of the experts they chose, and what these make of them comes back.
//
// Shapes: x (T,D) → y (T,D).
type MoE struct {
	Config
	Router  Router
	Experts Experts
	Latent  *Latent // nil: the experts are as wide as the model
	Shared  Mixer   // nil: no shared expert

	// Jitter multiplies what the router alone sees; nil: nothing does.
	Jitter *nn.Mask

	// EP are the ranks with the other experts, ETP those with the other parts of the same experts.
	EP, ETP parallel.Member
	// Overlap computes the shared expert of a forward while rows are on their way to the experts.
	Overlap bool
	// Meanwhile runs something else: in a forward once the rows have come, before they are read, in a backward while their gradients
	// are on their way; nil: nothing.
	Meanwhile func()

	// Aux and Z are the losses of the last forward, one element each.
	Aux, Z *device.Tensor

	x, index, order, inverse *device.Tensor
	way                      exchange
	ones                     *device.Tensor // one row of numbers for every rank of EP
}

// Mixer is a layer from (T,D) to (T,D).
type Mixer interface {
	Forward(dev *device.Device, x *device.Tensor) *device.Tensor
	Backward(dev *device.Device, dy *device.Tensor) *device.Tensor
	Params() []*nn.Param
}

var (
	permuteKernel = &device.Kernel{Name: "permute", In: device.Names("index"), Out: device.Names("order inverse offsets"), Run: runPermute}
	dispatchRows  = &device.Kernel{Name: "dispatch", In: device.Names("x order"), Scalars: device.Names("k"), Out: device.Names("rows"),
		Run: device.Width(runDispatch[float32], runDispatch[float64])}
	combineKernel = &device.Kernel{Name: "combine", ByToken: true, In: device.Names("rows inverse"), Scalars: device.Names("k"), Out: device.Names("y"),
		Fixed: reduce.MustPlan("slots:seq/fp32"),
		Fast:  reduce.MustPlan("slots:arrival/fp32"), Run: device.Width(runCombine[float32], runCombine[float64])}
	probRows = &device.Kernel{Name: "prob.permute", In: device.Names("p order"), Out: device.Names("p"),
		Run: device.Width(runProbRows[float32], runProbRows[float64])}
	probSlots = &device.Kernel{Name: "prob.unpermute", ByToken: true, In: device.Names("p order"), Out: device.Names("p"),
		Run: device.Width(runProbRows[float32], runProbRows[float64])}
)

// Forward is the layer; it also leaves the router's losses in Aux and Z.
func (m *MoE) Forward(dev *device.Device, x *device.Tensor) *device.Tensor {
	m.x = x
	router := dev.In("router")
	index, prob := m.Router.Forward(router, m.Jitter.Forward(router, x))
	m.Aux, m.Z = m.Router.Losses(router)
	m.index = index

	offsets := m.permute(dev)
	m.Experts.Order, m.Experts.tokens, m.Experts.parts = m.order, nil, m.ETP.Size()
	m.Experts.bounds, m.Experts.sources, m.Experts.gathered = offsets, 1, parallel.Member{}
	if m.apart() {
		m.Experts.parts, m.Experts.gathered = 1, m.ETP
	}
	if m.spread() {
		offsets = m.ways(dev, offsets)
		m.Experts.Order, m.Experts.sources = nil, m.sources()
	}
	if m.apart() && (m.spread() || m.Experts.shared()) {
		m.Experts.tokens, m.Experts.leaves = m.there(dev, "dispatch.tokens", "gather", "", m.tokens(dev, x.Rows())), x.Rows()*m.sharers()
	}
	latent := dev.In("latent")
	rows := m.dispatch(dev, "dispatch", m.Latent.In(latent, x)) // (R,L)
	rowProb := m.reorder(dev, "prob", probRows, prob, m.order)  // (R)
	var shared *device.Tensor
	beside := func() {
		if m.Shared != nil {
			shared = m.Shared.Forward(dev.In("shared"), x)
		}
	}
	if m.overlaps() {
		rows = m.sorted(dev, "dispatch", "gather", "", m.send(dev, "dispatch.a2a", rows, beside, m.meanwhile))
	} else {
		rows = m.there(dev, "dispatch", "gather", "", rows)
	}
	rowProb = m.there(dev, "prob", "gather", "", rowProb)
	y := m.Experts.Forward(dev.In("experts"), rows, rowProb, offsets)
	y = m.back(dev, "combine", "scatter", "", y, x.Format)
	out := m.Latent.Out(latent, m.combine(dev, "combine", y)) // (T,D)
	if !m.overlaps() {
		beside()
	}
	if m.Shared != nil {
		out = nn.Sum(dev, "y", out, shared)
	}
	return out
}

// Backward takes dy to x; the router's losses enter with the weight lossScale.
func (m *MoE) Backward(dev *device.Device, dy *device.Tensor, lossScale float64) *device.Tensor {
	// forward: out = combine(y)·Up [+ shared(x)]
	latent := dev.In("latent")
	drows := m.dispatch(dev, "combine.dx", m.Latent.OutBackward(latent, dy)) // (R,L)
	if m.overlaps() {                                                        // the shared expert keeps its place: what is drawn for its gradients would come in another order
		drows = m.sorted(dev, "combine", "scatter", ".dx", m.send(dev, "combine.a2a.dx", drows, m.meanwhile, nil))
	} else {
		drows = m.there(dev, "combine", "scatter", ".dx", drows)
	}
	dxr, dprobRows := m.Experts.Backward(dev.In("experts"), drows) // (R,L), (R)
	dxr = m.back(dev, "dispatch", "gather", ".dx", dxr, dy.Format)
	dprobRows = m.back(dev, "prob", "gather", ".dx", dprobRows, dprobRows.Format)
	dprob := m.reorder(dev, "prob.dx", probSlots, dprobRows, m.inverse)   // (T,K)
	dx := m.Latent.InBackward(latent, m.combine(dev, "dispatch.dx", dxr)) // (T,D)
	router := dev.In("router")
	dxRouter := m.Jitter.Backward(router, m.Router.Backward(router, dprob, lossScale)) // (T,D)
	// x feeds the experts, the router and the shared expert; their gradients
	// meet here, in this order.
	dx = nn.Sum(dev, "dx", dx, dxRouter)
	if m.Shared != nil {
		dx = nn.Sum(dev, "dx_shared", dx, m.Shared.Backward(dev.In("shared"), dy))
	}
	return dx
}

// Params lists the weights in the order of the forward.
func (m *MoE) Params() []*nn.Param {
	p := []*nn.Param{m.Router.W, m.Experts.W1, m.Experts.W2}
	if m.Latent != nil {
		p = []*nn.Param{m.Router.W, m.Latent.Down, m.Experts.W1, m.Experts.W2, m.Latent.Up}
	}
	if m.Shared != nil {
		p = append(p, m.Shared.Params()...)
	}
	return p
}

// permute sorts the routed rows by expert, tokens ascending within one.
func (m *MoE) permute(dev *device.Device) (offsets *device.Tensor) {
	c := dev.Open("permute", permuteKernel)
	c.Read("index", m.index)
	n := m.index.Len()
	m.order = c.Write("order", lowp.INT32, n)
	m.inverse = c.Write("inverse", lowp.INT32, n)
	offsets = c.Write("offsets", lowp.INT32, m.Config.Experts+1)
	c.Do()
	return offsets
}

// dispatch copies each token's row to every slot it chose.
func (m *MoE) dispatch(dev *device.Device, label string, x *device.Tensor) *device.Tensor {
	c := dev.Open(label, dispatchRows)
	c.Read("x", x)
	c.Read("order", m.order)
	c.ReadScalar("k", float64(m.TopK))
	y := c.Write("rows", x.Format, m.order.Len(), x.Cols())
	c.Do()
	return y
}

// combine adds a token's rows in slot order.
func (m *MoE) combine(dev *device.Device, label string, rows *device.Tensor) *device.Tensor {
	c := dev.Open(label, combineKernel)
	c.Read("rows", rows)
	c.Read("inverse", m.inverse)
	c.ReadScalar("k", float64(m.TopK))
	y := c.Write("y", rows.Format, m.inverse.Len()/m.TopK, rows.Cols())
	c.Do()
	return y
}

// reorder moves one number per slot between slot order and expert order.
func (m *MoE) reorder(dev *device.Device, label string, k *device.Kernel, p, by *device.Tensor) *device.Tensor {
	c := dev.Open(label, k)
	c.Read("p", p)
	c.Read("order", by)
	var y *device.Tensor
	if k == probSlots {
		y = c.Write("p", p.Format, by.Len()/m.TopK, m.TopK)
	} else {
		y = c.Write("p", p.Format, by.Len())
	}
	c.Do()
	return y
}

func runPermute(c *device.Call) {
	index, offsets := c.Input("index"), c.Output("offsets").I32()
	kernel.Permute(c.Output("order").I32(), c.Output("inverse").I32(), offsets, index.I32(), len(offsets)-1, index.Cols())
}

func runDispatch[T libm.Float](c *device.Call) {
	x := c.Input("x")
	gatherRows(device.Out[T](c, "rows"), device.Data[T](x), c.Input("order").I32(), int(c.Scalar("k")), x.Cols())
}

func runCombine[T libm.Float](c *device.Call) {
	k, y, rows, inverse, d := int(c.Scalar("k")), device.Out[T](c, "y"), device.In[T](c, "rows"), c.Input("inverse").I32(), c.Input("rows").Cols()
	if way := c.Race("slots"); way != kernel.Drawn {
		combineScatter(y, rows, inverse, k, d, way)
		return
	}
	combineSlots(y, rows, inverse, k, d, c.Fold("slots", k))
}

func runProbRows[T libm.Float](c *device.Call) {
	dst, src := device.Out[T](c, "p"), device.In[T](c, "p")
	for i, j := range c.Input("order").I32() {
		dst[i] = src[j]
	}
}
