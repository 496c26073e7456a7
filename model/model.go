package model

import (
	"math"
	"strconv"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/moe"
	"firstbit/reduce"
)

// Model is the network with the state of one microbatch under way.
type Model struct {
	Config
	Embed  Embedding
	Blocks []*Block
	Norm   RMSNorm
	Head   Head

	params     []*device.Param
	attentions []*Attention
	moes       []*moe.MoE
	routers    []Routed
	losses     Losses // of the last Forward
	format     lowp.Format
}

// Losses are the parts of one microbatch's loss, one element each: the language-model loss as
// a sum over tokens in nats, the others as they enter the total.
type Losses struct {
	LM  *device.Tensor
	Aux []*device.Tensor // load balancing, one per mixture-of-experts layer
	Z   []*device.Tensor
}

// New builds the network with weights of zeros in the given format.
func New(c Config, f lowp.Format) (*Model, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m := &Model{Config: c, format: f}
	m.Embed.W = m.param("embed.w", true, c.Vocab, c.Width)
	for i, letter := range c.Pattern {
		scope := "layers." + strconv.Itoa(i)
		b := &Block{Norm: RMSNorm{W: m.param(scope+".norm.w", false, c.Width), Eps: c.Eps}}
		b.Mixer = m.mixer(letter, scope)
		m.Blocks = append(m.Blocks, b)
	}
	m.Norm = RMSNorm{W: m.param("norm.w", false, c.Width), Eps: c.Eps}
	m.Head.W = m.Embed.W
	if !c.Tied {
		m.Head.W = m.param("head.w", true, c.Vocab, c.Width)
	}
	return m, nil
}

func (m *Model) mixer(letter rune, scope string) mixer {
	c := m.Config
	switch letter {
	case '*':
		p, s := c.P(), scope+".attn"
		a := &Attention{
			Wq: m.param(s+".wq", true, c.Width, c.Heads*p), Wk: m.param(s+".wk", true, c.Width, c.KVHeads*p),
			Wv: m.param(s+".wv", true, c.Width, c.KVHeads*p), Wo: m.param(s+".wo", true, c.Heads*p, c.Width),
			Shape: kernel.AttentionShape{H: c.Heads, KV: c.KVHeads, P: p},
		}
		m.attentions = append(m.attentions, a)
		return plain{a, "attn"}
	case '-':
		return plain{m.mlp(scope+".mlp", c.Hidden), "mlp"}
	case 'E':
		return experts{m.moe(scope + ".moe")}
	}
	panic("model: a pattern letter passed validation without a layer")
}

func (m *Model) mlp(scope string, hidden int) *MLP {
	return &MLP{W1: m.param(scope+".w1", true, m.Width, hidden), W2: m.param(scope+".w2", true, hidden, m.Width)}
}

func (m *Model) moe(scope string) *moe.MoE {
	c := m.MoE
	l := &moe.MoE{Config: c}
	l.Router = moe.Router{Config: c, W: m.param(scope+".router.w", true, c.Experts, m.Width),
		Bias:   device.NewTensor(device.MasterFormat(m.format), c.Experts),
		Tokens: device.NewTensor(lowp.INT32, c.Experts)}
	width := m.Width
	if c.Latent > 0 {
		width = c.Latent
		l.Latent = &moe.Latent{Down: m.param(scope+".latent.down", true, m.Width, width)}
	}
	l.Experts = moe.Experts{Config: c,
		W1: m.param(scope+".experts.w1", true, c.Experts, width, c.Hidden),
		W2: m.param(scope+".experts.w2", true, c.Experts, c.Hidden, width)}
	if c.Latent > 0 {
		l.Latent.Up = m.param(scope+".latent.up", true, width, m.Width)
	}
	if c.SharedHidden > 0 {
		l.Shared = m.mlp(scope+".shared", c.SharedHidden)
	}
	m.moes = append(m.moes, l)
	m.routers = append(m.routers, Routed{scope + ".router", &l.Router})
	return l
}

func (m *Model) param(name string, decay bool, shape ...int) *device.Param {
	p := device.NewParam(name, m.format, decay, shape...)
	m.params = append(m.params, p)
	return p
}

// Params lists the weights in forward order, each once.
func (m *Model) Params() []*device.Param { return m.params }

// Routers lists the mixture-of-experts layers' routers in order.
func (m *Model) Routers() []Routed { return m.routers }

// Routed is a router with its scope.
type Routed struct {
	Scope string
	*moe.Router
}

// Forward runs one microbatch of B sequences of T tokens.
func (m *Model) Forward(dev *device.Device, tokens, targets *device.Tensor) Losses {
	b, t := tokens.Dim(0), tokens.Dim(1)
	for _, a := range m.attentions {
		a.Shape.B, a.Shape.T = b, t
	}
	for _, l := range m.moes {
		l.Router.Sequence = t
	}
	x := m.Embed.Forward(dev, tokens) // (B·T,D)
	for i, block := range m.Blocks {
		layer := dev.In(m.scope(i))
		in := x
		x = block.Forward(layer, x)
		module(layer, "block", in, x)
	}
	x = m.Norm.Forward(dev, x)
	m.losses.LM = m.Head.Forward(dev, x, targets)
	m.losses.Aux, m.losses.Z = m.losses.Aux[:0], m.losses.Z[:0]
	for _, l := range m.moes {
		m.losses.Aux, m.losses.Z = append(m.losses.Aux, l.Aux), append(m.losses.Z, l.Z)
	}
	return m.losses
}

// Backward goes through the last Forward. tokenScale is one over the tokens of the
// global batch, lossScale the weight of the layers' own losses: one over the microbatches.
func (m *Model) Backward(dev *device.Device, tokenScale, lossScale float64) {
	dx := m.Norm.Backward(dev, m.Head.Backward(dev, tokenScale))
	for i := len(m.Blocks) - 1; i >= 0; i-- {
		layer := dev.In(m.scope(i))
		dy := dx
		dx = m.Blocks[i].Backward(layer, dy, lossScale)
		module(layer, "block", dy, dx)
	}
	m.Embed.Backward(dev, dx)
}

func (m *Model) scope(i int) string {
	if i < len(layerScopes) {
		return layerScopes[i]
	}
	return "layers." + strconv.Itoa(i)
}

var layerScopes = func() (s [64]string) {
	for i := range s {
		s[i] = "layers." + strconv.Itoa(i)
	}
	return s
}()

var (
	moduleKernel = &device.Kernel{Name: "module"}
	normalInit   = &device.Kernel{Name: "normal"}
	fillInit     = &device.Kernel{Name: "fill"}
)

// module marks a layer's boundary: what went in and what came out.
func module(dev *device.Device, label string, x, y *device.Tensor) {
	c := dev.OpenKind(device.Module, label, moduleKernel)
	c.Read("x", x)
	c.Update("y", y)
	c.Do()
}

// Normal draws the standard normal numbers of a named stream.
type Normal func(name string) func() float64

// Init draws every weight from a stream of its own name, so that no weight depends on
// which others there are or where they live. Norms are ones; the rest is
// N(0, init_std²), divided by √(2L) where a layer writes to the residual.
func (m *Model) Init(dev *device.Device, normal Normal) {
	residual := 1 / math.Sqrt(2*float64(len(m.Blocks)))
	for _, p := range m.params {
		std := m.InitStd
		if writesResidual(p.Name) {
			std *= residual
		}
		initParam(dev, p, std, normal)
	}
}

func initParam(dev *device.Device, p *device.Param, std float64, normal Normal) {
	k := normalInit
	if !p.Decay {
		k = fillInit
	}
	c := dev.OpenKind(device.Draw, p.Name, k)
	c.ReadScalar("std", std)
	c.Update("w", p.W)
	if p.Master != p.W {
		c.Update("master", p.Master)
	}
	c.Body = func(*device.Call) {
		next := normal(p.Name)
		for i := range p.Master.Len() {
			v := 1.0
			if p.Decay {
				v = next() * std
			}
			p.Master.Set(i, v)
		}
		p.W.CopyFrom(p.Master)
	}
	c.Do()
}

// writesResidual tells the last weight of a branch. Experts behind a latent have two: their w2 and
// latent.up are both divided, as in Megatron Core.
func writesResidual(name string) bool {
	for _, s := range []string{".attn.wo", ".w2", ".latent.up"} {
		if len(name) > len(s) && name[len(name)-len(s):] == s {
			return true
		}
	}
	return false
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
