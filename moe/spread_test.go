package moe

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/parallel"
	"firstbit/reduce"
	"firstbit/state"
)

// The batch of these tests: sequences of so many tokens, dealt to data ranks and microbatches.
const sequences, seqLen = 8, 16

var wide = Config{Experts: 8, TopK: 2, Hidden: 12, Router: "sigmoid", RouterDtype: "fp32", Aux: "sequence",
	Scaling: 2.5, AuxCoeff: 0.7, ZCoeff: 0.1, TileM: 4, TileN: 4, TileSub: 3}

// spread is a layer on the ranks of a layout.
type spread struct {
	Config
	layout    string
	format    lowp.Format
	micro     int // microbatches of a rank
	canonical bool
	bias      float64 // of the first experts, which every token then chooses

	change     func(m *MoE) // what a control breaks
	middleware []device.Middleware
}

// outcome is what all ranks have together: rows as on one rank, whole gradients, the losses' sums over microbatches.
type outcome struct {
	y, dx   []float64
	grads   map[string][]float64
	aux, z  []float64 // by data rank and microbatch
	tokens  []int
	perRank [][]float64 // Aux and Z of each rank's microbatches
	sent    []int       // rows each rank's experts had
}

// bits are the bits of everything.
func (o outcome) bits() map[string][]uint64 {
	of := func(x []float64) (b []uint64) {
		for _, v := range x {
			b = append(b, math.Float64bits(v))
		}
		return b
	}
	all := map[string][]uint64{"y": of(o.y), "dx": of(o.dx), "aux": of([]float64{pairwise(o.aux)}), "z": of([]float64{pairwise(o.z)})}
	for name, g := range o.grads {
		all[name] = of(g)
	}
	return all
}

func pairwise(x []float64) float64 {
	narrow := make([]float32, len(x))
	for i, v := range x {
		narrow[i] = float32(v)
	}
	return float64(reduce.Pairwise.Tree(len(x)).Sum(narrow, lowp.FP32) / float32(len(x)))
}

// byToken is the canonical recipe's plans, as its middleware sets them.
func byToken(next device.Runner) device.Runner {
	return func(c *device.Call) {
		plan, err := c.Kernel.Fixed.With(c.Kernel.Canonical)
		if err == nil && c.Kernel.Tokens != "" {
			r := plan.Reduction(c.Kernel.Tokens)
			r.Order = reduce.Blocked(seqLen / 8)
			plan, err = plan.With(reduce.PlanOf(r))
		}
		if err != nil {
			panic(err)
		}
		c.Plan = plan
		next(c)
	}
}

func random(f lowp.Format, seed uint64, shape ...int) *device.Tensor {
	t, r := device.NewTensor(f, shape...), rand.New(rand.NewPCG(11, seed))
	for i := range t.Len() {
		t.Set(i, r.NormFloat64())
	}
	return t
}

// build is a rank's layer.
func (s spread) build(r parallel.Rank) *MoE {
	c, inner := s.Config, width
	m := &MoE{Config: c, EP: r.EP(), ETP: r.ETP()}
	m.Router = Router{Config: c, W: nn.NewParam("router.w", s.format, true, c.Experts, width), Bias: random(nn.MasterFormat(s.format), 3, c.Experts),
		Tokens: device.NewTensor(lowp.INT32, c.Experts), TP: r.TP(), CP: r.CP(), Batch: s.batch(r.Layout()), Sequence: seqLen}
	if c.Latent > 0 {
		inner = c.Latent
		m.Latent = &Latent{Down: nn.NewParam("down", s.format, true, width, inner), Up: nn.NewParam("up", s.format, true, inner, width)}
	}
	expert := func(name string, shape []int, hidden int) *nn.Param {
		return nn.NewPart(name, s.format, true, shape, state.Cut{Dim: 0, Part: r.EP().Index, Parts: r.EP().Size()},
			state.Cut{Dim: hidden, Part: r.ETP().Index, Parts: r.ETP().Size()})
	}
	m.Experts = Experts{Config: c, W1: expert("w1", []int{c.Experts, inner, c.Hidden}, 2), W2: expert("w2", []int{c.Experts, c.Hidden, inner}, 1)}
	for i := range m.Router.Bias.Len() {
		v := 0.4 * m.Router.Bias.Value(i)
		if i < c.TopK {
			v += s.bias
		}
		m.Router.Bias.Set(i, v)
	}
	for n, p := range m.Params() {
		whole := random(s.format, uint64(20+n), p.Place.Whole...)
		for i := range p.W.Len() {
			p.W.Set(i, whole.Value(p.Place.Index(i)))
		}
		if s.canonical {
			p.Accumulator = new(nn.ByUse)
		}
		sharers := r.Micro()
		if p == m.Experts.W1 || p == m.Experts.W2 {
			sharers = r.Siblings()
		}
		if s.canonical && sharers.Size() > 1 {
			p.Join = func(d *device.Device, label string, dw *device.Tensor) *device.Tensor {
				return sharers.AllReduce(d, label+".join", dw)
			}
		}
	}
	if s.change != nil {
		s.change(m)
	}
	return m
}

func (s spread) batch(l parallel.Layout) int { return sequences / l.DP / s.micro }

// rows are the rows of the whole batch that a rank has of a microbatch.
func (s spread) rows(l parallel.Layout, at device.Coord, micro int) []int {
	b, per := s.batch(l), seqLen/l.CP
	var rows []int
	for i := range b {
		first := ((at.DP*s.micro+micro)*b+i)*seqLen + at.CP*per
		for t := range per {
			rows = append(rows, first+t)
		}
	}
	own := len(rows) / l.TP
	return rows[at.TP*own:][:own]
}

// part is a rank's gradient of one weight.
type part struct {
	*nn.Param
	grad  []float64
	first bool // of those that have the same sum
}

func (s spread) run(t *testing.T) outcome {
	t.Helper()
	l, err := parallel.ParseLayout(s.layout)
	require.NoError(t, err, s.layout)
	x, dy := random(s.format, 1, sequences*seqLen, width), random(s.format, 2, sequences*seqLen, width)
	out := outcome{y: make([]float64, x.Len()), dx: make([]float64, x.Len()), aux: make([]float64, l.DP*s.micro), z: make([]float64, l.DP*s.micro),
		tokens: make([]int, s.Experts), perRank: make([][]float64, l.World()), sent: make([]int, l.World())}
	parts, tokens := make([][]part, l.World()), make([]*device.Tensor, l.World())
	w := parallel.NewWorld(l, 8)
	require.NoError(t, w.Run(func(r parallel.Rank) error {
		middleware := s.middleware
		if s.canonical {
			middleware = append([]device.Middleware{byToken}, middleware...)
		}
		dev, m, at := device.New(device.Options{Rank: r.Index, At: w.At(r.Index)}, middleware...), s.build(r), w.At(r.Index)
		tokens[r.Index] = m.Router.Tokens
		for micro := range s.micro {
			rows := s.rows(l, at, micro)
			dev.At(1, micro, device.Fwd)
			y := m.Forward(dev, take(x, rows))
			m.Router.CountTokens(dev.In("router"))
			put(out.y, y, rows)
			out.sent[r.Index] += m.Experts.x.Rows()
			out.perRank[r.Index] = append(out.perRank[r.Index], m.Aux.Value(0), m.Z.Value(0))
			if at.TP == 0 && at.CP == 0 {
				out.aux[at.DP*s.micro+micro], out.z[at.DP*s.micro+micro] = m.Aux.Value(0), m.Z.Value(0)
			}
			dev.Enter(device.Bwd)
			put(out.dx, m.Backward(dev, take(dy, rows), 1/float64(l.DP*s.micro)), rows)
		}
		dev.At(1, 0, device.Opt)
		for _, p := range m.Params() {
			g := p.Grad
			if by, ok := p.Accumulator.(*nn.ByUse); ok {
				g = nn.Total(dev, p.Name, by.Uses[0])
			}
			first := !s.canonical || r.Micro().Index == 0
			if s.canonical && (p == m.Experts.W1 || p == m.Experts.W2) {
				first = r.Siblings().Index == 0
			}
			parts[r.Index] = append(parts[r.Index], part{p, values(g), first})
		}
		return dev.Err()
	}), s.layout)
	for _, n := range tokens {
		for e, v := range n.I32() {
			out.tokens[e] += int(v)
		}
	}
	out.grads = s.whole(parts)
	return out
}

// whole adds every element's gradients over the ranks that have it, pairwise.
func (s spread) whole(parts [][]part) map[string][]float64 {
	all := map[string][]float64{}
	for n, like := range parts[0] {
		leaves := make([][]float64, like.Place.Elements())
		for _, rank := range parts {
			for i, v := range rank[n].grad {
				if at := rank[n].Place.Index(i); rank[n].first {
					leaves[at] = append(leaves[at], v)
				}
			}
		}
		for _, x := range leaves {
			sum := 0.0
			if s.format == lowp.FP64 {
				for _, v := range x {
					sum += v
				}
			} else {
				sum = pairwise(x) * float64(len(x))
			}
			all[like.Name] = append(all[like.Name], sum)
		}
	}
	return all
}

func take(x *device.Tensor, rows []int) *device.Tensor {
	y := device.NewTensor(x.Format, len(rows), width)
	for i, r := range rows {
		for j := range width {
			y.Set(i*width+j, x.Value(r*width+j))
		}
	}
	return y
}

func put(to []float64, x *device.Tensor, rows []int) {
	for i, r := range rows {
		for j := range width {
			to[r*width+j] = x.Value(i*width + j)
		}
	}
}

func values(x *device.Tensor) []float64 {
	v := make([]float64, x.Len())
	for i := range v {
		v[i] = x.Value(i)
	}
	return v
}
