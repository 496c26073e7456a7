package model

import (
	"strconv"
	"strings"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/moe"
	"firstbit/nn"
	"firstbit/parallel"
	"firstbit/ssm"
	"firstbit/state"
)

// New builds the network in the given format, with weights of zeros and streams without a seed: Init sets both.
func New(c Config, f lowp.Format) (*Model, error) {
	w, err := NewWeights(c, f, parallel.Rank{}, false)
	if err != nil {
		return nil, err
	}
	return w.Piece(0), nil
}

// NewWeights is what a rank has of the network, before its pieces. Under the canonical recipe gradients meet in an order that does
// not depend on the layout.
func NewWeights(c Config, f lowp.Format, rank parallel.Rank, canonical bool) (*Weights, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	w := &Weights{Config: c, format: f, rank: rank, canonical: canonical, byName: map[string]*nn.Param{}, states: map[string]*routerState{}, counted: map[int]bool{}}
	w.dropout = w.stream("dropout.tp", c.Dropout > 0)
	w.jitter = w.stream("jitter.ep", c.MoE.Jitter > 0 && strings.ContainsRune(c.Pattern, 'E'))
	return w, nil
}

// Pieces is the number of pieces of the network on a rank.
func (w *Weights) Pieces() int { return w.rank.Layout().VPP }

// Piece builds a piece of the network: a run of layers, on the first stage behind the embedding, on the last before the head. Piece after
// piece the stages have one each, and then another. Asked for again it is another with the same weights, for another
// microbatch.
func (w *Weights) Piece(i int) *Model {
	l := w.rank.Layout()
	at, of := i*l.PP+w.rank.PP().Index, l.PP*l.VPP
	w.building = i
	m := &Model{Weights: w, Index: at, first: at == 0, last: at == of-1, seen: map[string]bool{}}
	if w.indexed != nil {
		m.rows = &nn.Rows{Seed: *w.indexed}
	}
	main, inner := w.Layers()
	lo, hi := w.stage(at, of)
	m.from = lo
	m.moeFrom = strings.Count(main[:lo], "E")
	if m.first || m.last && (w.Tied || inner != "") {
		m.Embed = Embedding{W: m.param("embed.w", weight, []int{w.Vocab, w.Width}, m.tp(0)), TP: w.rank.TP()}
		m.join(m.Embed.W)
		if m.first {
			m.use(m.Embed.W)
		}
		m.Embed.W.Ends = of > 1 && (w.Tied || inner != "")
	}
	m.Blocks = m.blocks(main[lo:hi], "", "", lo)
	if m.last {
		m.end(inner)
	}
	w.counted[i] = true
	return m
}

// end builds what stands behind the last layer.
func (m *Model) end(inner string) {
	m.Norm = m.norm("norm.w")
	m.Head = m.head()
	if inner != "" {
		for k := range m.MTP.Depths {
			m.Depths = append(m.Depths, m.depth(k, inner))
		}
	}
}

// head is a head with activations of its own.
func (m *Model) head() Head {
	h := Head{W: m.Embed.W, TP: m.rank.TP(), CP: m.rank.CP(), Normaliser: m.Normaliser}
	if m.Tied {
		m.use(h.W)
	} else {
		h.W = m.part("head.w", weight, []int{m.Vocab, m.Width}, m.tp(0))
	}
	return h
}

// tp is a weight's cut over tensor-parallel ranks.
func (w *Weights) tp(dim int) state.Cut { return cutOf(dim, w.rank.TP()) }

func cutOf(dim int, m parallel.Member) state.Cut {
	return state.Cut{Dim: dim, Part: m.Index, Parts: m.Size()}
}

// stream is a stream that the forward draws from, if it does.
func (w *Weights) stream(name string, drawn bool) *nn.Stream {
	if !drawn {
		return nil
	}
	s := nn.NewStream(name)
	w.streams = append(w.streams, s)
	return s
}

// Index has masks depend on the seed and on the tokens they are for, wherever these lie, in place of streams of the rank's own. It
// comes before the first piece.
func (w *Weights) Index(seed uint64) {
	w.indexed, w.streams, w.dropout, w.jitter = &seed, nil, nil, nil
}

// Overlap has experts compute while rows are on their way, and lets something else run then. It comes before the first piece.
func (w *Weights) Overlap(meanwhile func()) { w.overlap, w.meanwhile = true, meanwhile }

// masked gives a mask what it draws by.
func (m *Model) masked(mask *nn.Mask) *nn.Mask {
	mask.Rows = m.rows
	return mask
}

// depth builds MTP depth k; repeated depths have the weights of the first.
func (m *Model) depth(k int, inner string) *Depth {
	scope := "mtp." + strconv.Itoa(k) + "."
	weights := scope
	if m.MTP.Repeated {
		weights = "mtp.0."
	}
	d := &Depth{Embed: Embedding{W: m.Embed.W, TP: m.rank.TP()}, Head: m.head()}
	m.use(m.Embed.W)
	d.ENorm, d.HNorm = m.norm(weights+"enorm.w"), m.norm(weights+"hnorm.w")
	d.Proj = m.whole(weights+"proj", linear, 2*m.Width, m.Width)
	d.Blocks = m.blocks(inner, scope, weights, 0)
	d.Norm = m.norm(weights + "norm.w")
	return d
}

// blocks builds the layers of a pattern, numbered from a number on: prefix names their Calls, weights their weights.
func (m *Model) blocks(pattern, prefix, weights string, from int) []*Block {
	var blocks []*Block
	for i, letter := range pattern {
		layer := layerScopes.At(from + i)
		b := &Block{Norm: m.norm(weights + layer + ".norm.w")}
		b.Mixer = m.mixer(letter, prefix+layer, weights+layer)
		if m.Config.Dropout > 0 {
			b.Dropout = m.masked(nn.Dropout(m.dropout, m.Config.Dropout))
		}
		blocks = append(blocks, b)
	}
	return blocks
}

func (m *Model) norm(name string) RMSNorm { return RMSNorm{W: m.whole(name, one, m.Width), Eps: m.Eps} }

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
	c, p, n := m.Config, m.P(), m.rank.TP().Size()
	a := &Attention{TP: m.rank.TP(), CP: m.rank.CP(),
		Wq:    m.part(scope+".wq", linear, []int{c.Width, c.Heads * p}, m.tp(1)),
		Wk:    m.part(scope+".wk", linear, []int{c.Width, c.KVHeads * p}, m.tp(1)),
		Wv:    m.part(scope+".wv", linear, []int{c.Width, c.KVHeads * p}, m.tp(1)),
		Wo:    m.part(scope+".wo", linear, []int{c.Heads * p, c.Width}, m.tp(0)),
		Shape: attentionShape{H: c.Heads / n, KV: c.KVHeads / n, P: p},
	}
	m.attentions = append(m.attentions, a)
	return a
}

func (m *Model) mamba(scope string) *ssm.Mamba {
	c, n := m.SSM, m.rank.TP().Size()
	l := &ssm.Mamba{Config: c, Eps: m.Eps, TP: m.rank.TP(), CP: m.rank.CP(),
		InProj:   m.part(scope+".in_proj", linear, []int{m.Width, c.Projected()}, m.tp(1)),
		Conv:     m.part(scope+".conv.w", around0(c.Conv, true), []int{c.Channels(), c.Conv}, m.tp(0)),
		ConvBias: m.part(scope+".conv.b", around0(c.Conv, false), []int{c.Channels()}, m.tp(0)),
		DTBias:   m.part(scope+".dt_bias", stepGap, []int{c.Heads}, m.tp(0)), ALog: m.part(scope+".a_log", decayed, []int{c.Heads}, m.tp(0)),
		Skip: m.part(scope+".d", skip, []int{c.Heads}, m.tp(0)), Norm: m.part(scope+".norm.w", one, []int{c.Inner()}, m.tp(0)),
		OutProj: m.part(scope+".out_proj", linear, []int{c.Inner(), m.Width}, m.tp(0))}
	l.Heads, l.Groups = c.Heads/n, c.Groups/n
	m.mambas = append(m.mambas, l)
	return l
}

func (m *Model) mlp(scope string, hidden int) *MLP {
	return &MLP{TP: m.rank.TP(), W1: m.part(scope+".w1", linear, []int{m.Width, hidden}, m.tp(1)), W2: m.part(scope+".w2", linear, []int{hidden, m.Width}, m.tp(0))}
}

// routerState is what a router carries from step to step besides its weights.
type routerState struct{ bias, tokens *device.Tensor }

// moe builds a mixture-of-experts layer; scope names its Calls, weights its weights and state.
func (m *Model) moe(scope, weights string) *moe.MoE {
	c, r := m.MoE, m.rank
	l := &moe.MoE{Config: c, EP: r.EP(), ETP: r.ETP(), Overlap: m.overlap, Meanwhile: m.meanwhile}
	state := m.states[weights]
	if state == nil {
		state = &routerState{device.NewTensor(nn.MasterFormat(m.format), c.Experts), device.NewTensor(lowp.INT32, c.Experts)}
		m.states[weights] = state
	}
	l.Router = moe.Router{Config: c, W: m.whole(weights+".router.w", weight, c.Experts, m.Width), Bias: state.bias, Tokens: state.tokens,
		TP: r.TP(), CP: r.CP()}
	width := m.Width
	if c.Latent > 0 {
		width = c.Latent
		l.Latent = &moe.Latent{Down: m.whole(weights+".latent.down", linear, m.Width, width)}
	}
	l.Experts = moe.Experts{Config: c,
		W1: m.expert(weights+".experts.w1", []int{c.Experts, width, c.Hidden}, 2),
		W2: m.expert(weights+".experts.w2", []int{c.Experts, c.Hidden, width}, 1)}
	if c.Latent > 0 {
		l.Latent.Up = m.whole(weights+".latent.up", linear, width, m.Width)
	}
	if c.SharedHidden > 0 {
		l.Shared = m.mlp(weights+".shared", c.SharedHidden)
	}
	if c.Jitter > 0 {
		l.Jitter = m.masked(nn.Jitter(m.jitter, c.Jitter))
	}
	m.moes = append(m.moes, l)
	m.routers = append(m.routers, Routed{scope + ".router", m.seen[weights], &l.Router})
	m.seen[weights] = true
	return l
}
