package model

import (
	"strconv"
	"strings"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/lowp"
	"firstbit/moe"
	"firstbit/ssm"
)

// New builds the network in the given format, with weights of zeros and streams without a seed: Init sets both.
func New(c Config, f lowp.Format) (*Model, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m := &Model{Config: c, format: f, byName: map[string]*device.Param{}, states: map[string]*routerState{}}
	m.dropout = m.stream("dropout.tp", c.Dropout > 0)
	m.jitter = m.stream("jitter.ep", c.MoE.Jitter > 0 && strings.ContainsRune(c.Pattern, 'E'))
	main, inner := m.patterns()
	m.Embed.W = m.param("embed.w", weight, c.Vocab, c.Width)
	m.Blocks = m.blocks(main, "", "")
	m.Norm = m.norm("norm.w")
	m.Head.W = m.Embed.W
	if !c.Tied {
		m.Head.W = m.param("head.w", weight, c.Vocab, c.Width)
	}
	if inner != "" {
		for k := range c.MTP.Depths {
			m.MTP = append(m.MTP, m.depth(k, inner))
		}
	}
	return m, nil
}

// stream is a stream that the forward draws from, if it does.
func (m *Model) stream(name string, drawn bool) *device.Stream {
	if !drawn {
		return nil
	}
	s := device.NewStream(name)
	m.streams = append(m.streams, s)
	return s
}

// patterns are the letters of the main layers and of an MTP depth.
func (c Config) patterns() (main, inner string) {
	main, inner, _ = strings.Cut(c.Pattern, "/")
	return main, inner
}

// depth builds MTP depth k; repeated depths have the weights of the first.
func (m *Model) depth(k int, inner string) *Depth {
	scope := "mtp." + strconv.Itoa(k) + "."
	weights := scope
	if m.Config.MTP.Repeated {
		weights = "mtp.0."
	}
	d := &Depth{Embed: Embedding{W: m.Embed.W}, Head: Head{W: m.Head.W}}
	d.ENorm, d.HNorm = m.norm(weights+"enorm.w"), m.norm(weights+"hnorm.w")
	d.Proj = m.param(weights+"proj", weight, 2*m.Width, m.Width)
	d.Blocks = m.blocks(inner, scope, weights)
	d.Norm = m.norm(weights + "norm.w")
	return d
}

// blocks builds the layers of a pattern: prefix names their Calls, weights their weights.
func (m *Model) blocks(pattern, prefix, weights string) []*Block {
	var blocks []*Block
	for i, letter := range pattern {
		layer := scopeOf(i)
		b := &Block{Norm: m.norm(weights + layer + ".norm.w")}
		b.Mixer = m.mixer(letter, prefix+layer, weights+layer)
		if m.dropout != nil {
			b.Dropout = device.Dropout(m.dropout, m.Config.Dropout)
		}
		blocks = append(blocks, b)
	}
	return blocks
}

func (m *Model) norm(name string) RMSNorm { return RMSNorm{W: m.param(name, one, m.Width), Eps: m.Eps} }

func (m *Model) mixer(letter rune, scope, weights string) mixer {
	switch letter {
	case '*':
		return plain{m.attention(weights + ".attn"), "attn"}
	case '-':
		return plain{m.mlp(weights+".mlp", m.Hidden), "mlp"}
	case 'E':
		return experts{m.moe(scope+".moe", weights+".moe")}
	case 'M':
		return plain{m.mamba(weights + ".ssm"), "ssm"}
	}
	panic("model: a pattern letter passed validation without a layer")
}

func (m *Model) attention(scope string) *Attention {
	c, p := m.Config, m.P()
	a := &Attention{
		Wq: m.param(scope+".wq", weight, c.Width, c.Heads*p), Wk: m.param(scope+".wk", weight, c.Width, c.KVHeads*p),
		Wv: m.param(scope+".wv", weight, c.Width, c.KVHeads*p), Wo: m.param(scope+".wo", weight, c.Heads*p, c.Width),
		Shape: kernel.AttentionShape{H: c.Heads, KV: c.KVHeads, P: p},
	}
	m.attentions = append(m.attentions, a)
	return a
}

func (m *Model) mamba(scope string) *ssm.Mamba {
	c := m.SSM
	l := &ssm.Mamba{Config: c, Eps: m.Eps,
		InProj:   m.param(scope+".in_proj", weight, m.Width, c.Projected()),
		Conv:     m.param(scope+".conv.w", around0(c.Conv, true), c.Channels(), c.Conv),
		ConvBias: m.param(scope+".conv.b", around0(c.Conv, false), c.Channels()),
		DTBias:   m.param(scope+".dt_bias", stepGap, c.Heads), ALog: m.param(scope+".a_log", decayed, c.Heads),
		Skip: m.param(scope+".d", skip, c.Heads), Norm: m.param(scope+".norm.w", one, c.Inner()),
		OutProj: m.param(scope+".out_proj", weight, c.Inner(), m.Width)}
	m.mambas = append(m.mambas, l)
	return l
}

func (m *Model) mlp(scope string, hidden int) *MLP {
	return &MLP{W1: m.param(scope+".w1", weight, m.Width, hidden), W2: m.param(scope+".w2", weight, hidden, m.Width)}
}

// routerState is what a router carries from step to step besides its weights.
type routerState struct{ bias, tokens *device.Tensor }

// moe builds a mixture-of-experts layer; scope names its Calls, weights its weights and state.
func (m *Model) moe(scope, weights string) *moe.MoE {
	c := m.MoE
	l := &moe.MoE{Config: c}
	state, shared := m.states[weights], true
	if state == nil {
		state, shared = &routerState{device.NewTensor(device.MasterFormat(m.format), c.Experts), device.NewTensor(lowp.INT32, c.Experts)}, false
		m.states[weights] = state
	}
	l.Router = moe.Router{Config: c, W: m.param(weights+".router.w", weight, c.Experts, m.Width), Bias: state.bias, Tokens: state.tokens}
	width := m.Width
	if c.Latent > 0 {
		width = c.Latent
		l.Latent = &moe.Latent{Down: m.param(weights+".latent.down", weight, m.Width, width)}
	}
	l.Experts = moe.Experts{Config: c,
		W1: m.param(weights+".experts.w1", weight, c.Experts, width, c.Hidden),
		W2: m.param(weights+".experts.w2", weight, c.Experts, c.Hidden, width)}
	if c.Latent > 0 {
		l.Latent.Up = m.param(weights+".latent.up", weight, width, m.Width)
	}
	if c.SharedHidden > 0 {
		l.Shared = m.mlp(weights+".shared", c.SharedHidden)
	}
	if m.jitter != nil {
		l.Jitter = device.Jitter(m.jitter, c.Jitter)
	}
	m.moes = append(m.moes, l)
	m.routers = append(m.routers, Routed{scope + ".router", shared, &l.Router})
	return l
}

// param is the weight of a name; one that is there already is shared.
func (m *Model) param(name string, in initializer, shape ...int) *device.Param {
	if p := m.byName[name]; p != nil {
		return p
	}
	f := m.format
	if in.master {
		f = device.MasterFormat(f)
	}
	p := device.NewParam(name, f, in.decay, shape...)
	m.params, m.initials, m.byName[name] = append(m.params, p), append(m.initials, in), p
	return p
}
