package model

import (
	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/moe"
	"firstbit/nn"
	"firstbit/parallel"
	"firstbit/quant"
	"firstbit/reduce"
	"firstbit/ssm"
)

// Weights are what the pieces of a network on one rank share: parameters by name, the routers' state, and streams.
type Weights struct {
	Config
	Normaliser      Normaliser // of the losses; it is set before the first piece
	params          []*nn.Param
	initials        []initializer
	byName          map[string]*nn.Param
	states          map[string]*routerState
	streams         []*nn.Stream
	dropout, jitter *nn.Stream // nil: nothing draws from it
	indexed         *uint64    // the seed of masks that depend on their tokens; nil: they come from the streams
	format          lowp.Format
	quant           *quant.Recipe // of linear layers; nil: their products run on what there is
	high            []string      // GLOBs of weights that it leaves alone
	rank            parallel.Rank
	canonical       bool
	overlap         bool
	building        int          // the piece at hand
	counted         map[int]bool // pieces whose uses of weights were counted
	meanwhile       func()       // what experts let run
}

// Model is the network, or the piece of it that a stage of a pipeline runs, with the state of one microbatch under way.
type Model struct {
	*Weights
	Index  int // of the piece, first to last
	Embed  Embedding
	Blocks []*Block
	Norm   RMSNorm
	Head   Head
	Depths []*Depth // of multi-token prediction
	Sample int64    // number, within the run, of the first sequence of the microbatch
	// Starts (B,T) is, of every step of the microbatch, the one that its document begins at; nil: sequences are documents.
	Starts *device.Tensor

	first, last bool // it begins with the embedding, it ends with the head
	from        int  // number of the first of its layers
	moeFrom     int  // mixtures of experts before it
	attentions  []*Attention
	mambas      []*ssm.Mamba
	moes        []*moe.MoE
	routers     []Routed
	seen        map[string]bool // routers, by their weights
	rows        *nn.Rows        // of the microbatch, for indexed masks; nil: they come from streams
	losses      Losses          // of the last Forward
	seq         int             // T of the last Forward
}

// Losses are the parts of one microbatch's loss, one element each: the language-model losses as
// sums over tokens in nats, or means (ByMicrobatch), the others as they enter the total. They are of all ranks that share the microbatch's tokens, but
// only of the piece's layers.
type Losses struct {
	LM      *device.Tensor   // nil: the piece has no head
	Labels  *device.Tensor   // how many labels of LM the rank has, where the step is divided by them
	MTP     []*device.Tensor // per depth
	Aux     []*device.Tensor // load balancing, one per mixture-of-experts layer
	Z       []*device.Tensor
	Experts int // mixture-of-experts layers before those
}

// Params lists the weights of the rank in forward order, each once.
func (w *Weights) Params() []*nn.Param { return w.params }

// Routers lists the routers of the piece in order.
func (m *Model) Routers() []Routed { return m.routers }

// Streams lists the random streams that the forward draws from.
func (w *Weights) Streams() []*nn.Stream { return w.streams }

// Routed is a router with its scope.
type Routed struct {
	Scope  string
	Shared bool // a router before it has the same weights, bias and counts
	*moe.Router
}

// Forward runs one microbatch of B sequences of T tokens through the whole network.
func (m *Model) Forward(dev *device.Device, tokens, targets *device.Tensor) Losses {
	_, losses := m.ForwardFrom(dev, nil, tokens, targets)
	return losses
}

// ForwardFrom runs one microbatch through the piece: x is what the piece before made, nil for the first; y is for the
// next, nil behind the head. Tokens and targets are whole sequences.
//
// Shapes: tokens, targets (B,T) → x, y (rows of the rank,D).
func (m *Model) ForwardFrom(dev *device.Device, x, tokens, targets *device.Tensor) (y *device.Tensor, losses Losses) {
	m.extents(tokens.Dim(0), tokens.Dim(1))
	run := runner{}
	if m.first {
		x = m.Embed.Forward(dev, m.context(dev, "context.ids", tokens))
	}
	y = run.forward(dev, m.Blocks, m.from, x)
	l := &m.losses
	l.MTP, l.Aux, l.Z, l.Experts = l.MTP[:0], l.Aux[:0], l.Z[:0], m.moeFrom
	if m.last {
		m.headForward(dev, y, tokens, targets, run)
		y = nil
	}
	for _, e := range m.moes {
		l.Aux, l.Z = append(l.Aux, e.Aux), append(l.Z, e.Z)
	}
	return y, *l
}

// extents tells the layers how the microbatch's rows are cut.
func (m *Model) extents(b, t int) {
	for _, a := range m.attentions {
		a.Shape.B, a.Shape.T, a.Starts = b, t, m.Starts
	}
	for _, l := range m.mambas {
		l.Batch, l.Starts = b, m.Starts
	}
	for _, l := range m.moes {
		l.Router.Batch, l.Router.Sequence = b, t
	}
	if cp, tp := m.rank.CP(), m.rank.TP(); m.rows != nil {
		tokens := t / cp.Size()
		m.rows.Sample, m.rows.Token, m.rows.Tokens, m.rows.First = m.Sample, cp.Index*tokens, tokens, tp.Index*(b*tokens/tp.Size())
	}
	m.seq = t
}

// headForward is what comes after the layers: the head, and the depths of multi-token prediction.
func (m *Model) headForward(dev *device.Device, y, tokens, targets *device.Tensor, run runner) {
	h := m.Norm.Forward(dev, y) // (rows,D)
	m.losses.LM, m.losses.Labels = m.Head.Forward(dev, h, m.context(dev, "context.targets", targets))
	for k, d := range m.Depths {
		at := dev.In(depthScopes.At(k))
		ids, labels := roll(at, tokens, targets, m.Starts, k+1)
		var loss *device.Tensor
		h, loss = d.Forward(at, h, m.context(at, "context.ids", ids), m.context(at, "context.targets", labels), run)
		m.losses.MTP = append(m.losses.MTP, loss)
	}
}

// Backward goes through the last Forward. What the head returned has the weight tokenScale, such as one over
// the tokens of the global batch; the layers' own losses have lossScale, such as one over the microbatches.
func (m *Model) Backward(dev *device.Device, tokenScale, lossScale float64) {
	m.BackwardFrom(dev, nil, tokenScale, lossScale)
}

// BackwardFrom is Backward through the piece: dy comes from the piece after it, nil behind the head; dx is for the one
// before, nil from the first.
func (m *Model) BackwardFrom(dev *device.Device, dy *device.Tensor, tokenScale, lossScale float64) (dx *device.Tensor) {
	run := runner{recompute: m.Recompute, lossScale: lossScale}
	if m.last {
		dy = m.headBackward(dev, tokenScale, run)
	}
	dx = run.backward(dev, m.Blocks, m.from, dy)
	if !m.first {
		return dx
	}
	m.Embed.Backward(dev, dx)
	return nil
}

func (m *Model) headBackward(dev *device.Device, tokenScale float64, run runner) *device.Tensor {
	var dh *device.Tensor // of the main layers' output, from the depths
	for k := len(m.Depths) - 1; k >= 0; k-- {
		dh = m.Depths[k].Backward(dev.In(depthScopes.At(k)), dh, m.MTPScale(k, m.seq, tokenScale), run)
	}
	dy := m.Head.Backward(dev, tokenScale)
	if dh != nil { // the output feeds the head and the first depth; their gradients meet here, in this order
		dy = nn.Sum(dev, "out.dx", dy, dh)
	}
	return m.Norm.Backward(dev, dy)
}

// MTPScale is the weight of what the head of MTP depth k returns: the tokens' by factor/depths. By Tokens their mean is over the labels that
// T−k−1 steps of a sequence have, ByMicrobatch over those that are there; ByToken a label weighs as much as one of the main head, where
// Megatron's process_mtp_loss multiplies by a ratio of the labels that one rank has, which would depend on the layout.
func (w *Weights) MTPScale(k, seq int, tokenScale float64) float64 {
	scale := tokenScale * w.MTP.Factor / float64(w.MTP.Depths)
	if w.Normaliser != Tokens {
		return scale
	}
	return scale * float64(seq) / float64(seq-k-1)
}

// Format is that of weights and activations.
func (w *Weights) Format() lowp.Format { return w.format }

// Reads tells whether the piece reads tokens: it has the embedding or the head.
func (m *Model) Reads() bool { return m.first || m.last }

// The scopes of layers, and of depths of multi-token prediction.
var layerScopes, depthScopes = device.NewLabels("layers."), device.NewLabels("mtp.")

var moduleKernel = &device.Kernel{Name: "module", In: device.Names("x"), Out: device.Names("y")}

// module marks a layer's boundary: what went in and what came out.
func module(dev *device.Device, label string, x, y *device.Tensor) {
	c := dev.OpenKind(device.Module, label, moduleKernel)
	c.Read("x", x)
	c.Update("y", y)
	c.Do()
}

// Total is loss = lm/tokens + Σ aux/micro + Σ z/micro for reporting, each sum in layer order.
var total = &device.Kernel{Name: "sum", In: device.Names("part... labels?"), Scalars: device.Names("scale"), Out: device.Names("y"),
	Fixed: reduce.MustPlan("parts:seq/fp32"), Run: device.Width(runTotal[float32], runTotal[float64])}

// Reduce adds one-element tensors in the given order, multiplies by scale and divides by a number of labels; nil: by none.
func Reduce(dev *device.Device, label string, parts []*device.Tensor, scale float64, labels *device.Tensor, f lowp.Format) *device.Tensor {
	c := dev.Open(label, total)
	for _, p := range parts {
		c.Read("part", p)
	}
	c.ReadIf("labels", labels)
	c.ReadScalar("scale", scale)
	y := c.Write("y", f, 1)
	c.Do()
	return y
}

func runTotal[T libm.Float](c *device.Call) {
	parts := c.Inputs("part")
	sum := kernel.Run(c.Fold("parts", len(parts)), func(i int) T { return device.Data[T](parts[i].Tensor)[0] })
	sum *= T(c.Scalar("scale"))
	if labels := c.Input("labels"); labels != nil {
		sum /= T(nn.Labels(labels))
	}
	device.Out[T](c, "y")[0] = sum
}
