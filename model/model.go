package model

import (
	"strconv"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/moe"
	"firstbit/reduce"
	"firstbit/ssm"
)

// Model is the network with the state of one microbatch under way.
type Model struct {
	Config
	Embed  Embedding
	Blocks []*Block
	Norm   RMSNorm
	Head   Head
	MTP    []*Depth

	params          []*device.Param
	initials        []initializer
	byName          map[string]*device.Param
	states          map[string]*routerState
	streams         []*device.Stream
	dropout, jitter *device.Stream // nil: nothing draws from it
	attentions      []*Attention
	mambas          []*ssm.Mamba
	moes            []*moe.MoE
	routers         []Routed
	losses          Losses // of the last Forward
	format          lowp.Format
	seq             int // T of the last Forward
}

// Losses are the parts of one microbatch's loss, one element each: the language-model losses as
// sums over tokens in nats, the others as they enter the total.
type Losses struct {
	LM  *device.Tensor
	MTP []*device.Tensor // per depth
	Aux []*device.Tensor // load balancing, one per mixture-of-experts layer
	Z   []*device.Tensor
}

// Params lists the weights in forward order, each once.
func (m *Model) Params() []*device.Param { return m.params }

// Routers lists the mixture-of-experts layers' routers in order.
func (m *Model) Routers() []Routed { return m.routers }

// Streams lists the random streams that the forward draws from.
func (m *Model) Streams() []*device.Stream { return m.streams }

// Routed is a router with its scope.
type Routed struct {
	Scope  string
	Shared bool // a router before it has the same weights, bias and counts
	*moe.Router
}

// Forward runs one microbatch of B sequences of T tokens.
func (m *Model) Forward(dev *device.Device, tokens, targets *device.Tensor) Losses {
	b, t := tokens.Dim(0), tokens.Dim(1)
	for _, a := range m.attentions {
		a.Shape.B, a.Shape.T = b, t
	}
	for _, l := range m.mambas {
		l.Batch = b
	}
	for _, l := range m.moes {
		l.Router.Sequence = t
	}
	m.seq = t
	run := runner{}
	h := m.Norm.Forward(dev, run.forward(dev, m.Blocks, m.Embed.Forward(dev, tokens))) // (B·T,D)
	l := &m.losses
	l.LM = m.Head.Forward(dev, h, targets)
	l.MTP, l.Aux, l.Z = l.MTP[:0], l.Aux[:0], l.Z[:0]
	for k, d := range m.MTP {
		at := dev.In(depthScope(k))
		ids, labels := roll(at, tokens, targets, k+1)
		var loss *device.Tensor
		h, loss = d.Forward(at, h, ids, labels, run)
		l.MTP = append(l.MTP, loss)
	}
	for _, e := range m.moes {
		l.Aux, l.Z = append(l.Aux, e.Aux), append(l.Z, e.Z)
	}
	return *l
}

// Backward goes through the last Forward. Each token's loss has the weight tokenScale, one over
// the tokens of the global batch; the layers' own losses have lossScale, one over the microbatches.
func (m *Model) Backward(dev *device.Device, tokenScale, lossScale float64) {
	run := runner{recompute: m.Recompute, lossScale: lossScale}
	var dh *device.Tensor // of the main layers' output, from the depths
	for k := len(m.MTP) - 1; k >= 0; k-- {
		dh = m.MTP[k].Backward(dev.In(depthScope(k)), dh, m.MTPScale(k, tokenScale), run)
	}
	dy := m.Head.Backward(dev, tokenScale)
	if dh != nil { // the output feeds the head and the first depth; their gradients meet here, in this order
		dy = dev.Sum("out.dx", dy, dh)
	}
	m.Embed.Backward(dev, run.backward(dev, m.Blocks, m.Norm.Backward(dev, dy)))
}

// MTPScale is the weight of each label's loss at MTP depth k: the tokens' by factor/depths, their mean
// being over the labels that T−k−1 steps of a sequence have.
func (m *Model) MTPScale(k int, tokenScale float64) float64 {
	c := m.Config.MTP
	return tokenScale * c.Factor / float64(c.Depths) * float64(m.seq) / float64(m.seq-k-1)
}

const known = 64

func scopeOf(i int) string    { return numbered(&layerScopes, "layers.", i) }
func depthScope(k int) string { return numbered(&depthScopes, "mtp.", k) }

// numbered is prefix with i, made beforehand for small numbers: a step asks for it often.
func numbered(made *[known]string, prefix string, i int) string {
	if i < known {
		return made[i]
	}
	return prefix + strconv.Itoa(i)
}

func number(prefix string) (s [known]string) {
	for i := range s {
		s[i] = prefix + strconv.Itoa(i)
	}
	return s
}

var layerScopes, depthScopes = number("layers."), number("mtp.")

var moduleKernel = &device.Kernel{Name: "module"}

// module marks a layer's boundary: what went in and what came out.
func module(dev *device.Device, label string, x, y *device.Tensor) {
	c := dev.OpenKind(device.Module, label, moduleKernel)
	c.Read("x", x)
	c.Update("y", y)
	c.Do()
}

// Total is loss = lm/tokens + Σ aux/micro + Σ z/micro for reporting, each sum in layer order.
var total = &device.Kernel{Name: "sum", Fixed: reduce.MustPlan("parts:seq/fp32"), Run: device.Width(runTotal[float32], runTotal[float64])}

// Reduce adds one-element tensors in the given order and multiplies by scale.
func Reduce(dev *device.Device, label string, parts []*device.Tensor, scale float64, f lowp.Format) *device.Tensor {
	c := dev.Open(label, total)
	for _, p := range parts {
		c.Read("part", p)
	}
	c.ReadScalar("scale", scale)
	y := c.Write("y", f, 1)
	c.Do()
	return y
}

func runTotal[T libm.Float](c *device.Call) {
	f := c.Fold("parts", len(c.In))
	sum := kernel.Run(f, func(i int) T { return device.Data[T](c.In[i].Tensor)[0] })
	device.Data[T](c.Out[0].Tensor)[0] = T(sum * T(c.Scalar("scale")))
}
