package optim

import (
	"fmt"
	"math"
	"math/big"
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

// sketch is a parameter of a made-up model, and how ranks share it.
type sketch struct {
	name         string
	f            lowp.Format
	shape        []int
	tp           int // the dimension that tensor parallelism cuts; -1: none, and every rank has a part of the tokens
	expert, ends bool
	stage        int // 0: the first, 1: half way, 2: the last
	uses         int
}

var sketches = []sketch{
	{name: "embed", f: lowp.BF16, shape: []int{8, 6}, ends: true, uses: 2},
	{name: "norm.w", f: lowp.BF16, shape: []int{7}, tp: -1, uses: 1},
	{name: "up", stage: 1, f: lowp.BF16, shape: []int{6, 8}, tp: 1, uses: 2},
	{name: "down", f: lowp.FP32, shape: []int{8, 5}, uses: 1},
	{name: "router", stage: 1, f: lowp.FP32, shape: []int{4, 3}, tp: -1, uses: 1},
	{name: "w1", stage: 2, f: lowp.BF16, shape: []int{4, 4, 3}, expert: true, uses: 1},
	{name: "last", stage: 2, f: lowp.BF16, shape: []int{9}, tp: -1, uses: 1},
	{name: "head", stage: 2, f: lowp.BF16, shape: []int{5, 4}, tp: 1, uses: 1},
}

// build makes a rank's part; nil: the stage has none.
func (s sketch) build(r parallel.Rank) *nn.Param {
	l := r.Layout()
	if at := r.PP().Index; at != s.stage*(l.PP-1)/2 && !(s.ends && at == l.PP-1) {
		return nil
	}
	var cuts []state.Cut
	cut := func(dim int, m parallel.Member) {
		if m.Size() > 1 {
			cuts = append(cuts, state.Cut{Dim: dim, Part: m.Index, Parts: m.Size()})
		}
	}
	switch {
	case s.expert:
		cut(0, r.EP())
		cut(1, r.ETP())
	case s.tp >= 0:
		cut(s.tp, r.TP())
	}
	p := nn.NewPart(s.name, s.f, len(s.shape) > 1, s.shape, cuts...)
	p.Sequence, p.Expert, p.Ends = s.tp < 0, s.expert, s.ends && l.PP > 1
	for i := range p.Master.Len() {
		p.Master.Set(i, 1/float64(3+p.Place.Index(i)))
	}
	p.W.CopyFrom(p.Master)
	return p
}

// outcome is every logical element that the ranks hold, as bits, and the norms.
type outcome struct {
	bits  map[string]string
	norms []string
}

// note adds a rank's; copies must agree.
func (o *outcome) note(t *testing.T, what string, p *nn.Param, lo int, x *device.Tensor) {
	for i := range x.Len() {
		at := fmt.Sprint(what, " ", p.Name, " ", p.Place.Index(lo+i))
		if old, ok := o.bits[at]; ok {
			require.Equal(t, old, x.Bits(i), at)
		}
		o.bits[at] = x.Bits(i)
	}
}

type building func(Config, []*nn.Param, parallel.Rank, int) *AdamW

type filling func(dev *device.Device, r parallel.Rank, s sketch, p *nn.Param, step int)

// trained is what the ranks of a layout come to.
type trained struct {
	params [][]*nn.Param
	opts   []*AdamW
	norms  [][]string
}

// train runs three steps over the ranks of a layout. fill gives a rank its gradients.
func train(t *testing.T, l parallel.Layout, build building, fill filling, middleware ...device.Middleware) trained {
	w := parallel.NewWorld(l, 4)
	n := w.World()
	out := trained{make([][]*nn.Param, n), make([]*AdamW, n), make([][]string, n)}
	require.NoError(t, w.Run(func(r parallel.Rank) error {
		dev := device.New(device.Options{Rank: r.Index, At: w.At(r.Index)}, middleware...)
		var mine []*nn.Param
		var by []sketch
		for _, s := range sketches {
			if p := s.build(r); p != nil {
				mine, by = append(mine, p), append(by, s)
			}
		}
		opt := build(base, mine, r, 40)
		for step := 1; step <= 3; step++ {
			dev.At(step, 0, device.Bwd)
			for i, p := range mine {
				p.ZeroGrad()
				fill(dev, r, by[i], p, step)
			}
			dev.At(step, 0, device.Opt)
			norm, _ := opt.Step(dev, step, 0.01)
			out.norms[r.Index] = append(out.norms[r.Index], norm.Bits(0))
		}
		out.params[r.Index], out.opts[r.Index] = mine, opt
		return dev.Err()
	}))
	return out
}

// steps trains and puts together what the ranks hold.
func steps(t *testing.T, l parallel.Layout, build building, fill filling, middleware ...device.Middleware) outcome {
	t.Helper()
	out := train(t, l, build, fill, middleware...)
	o := outcome{bits: map[string]string{}, norms: out.norms[0]}
	for r := range out.params {
		require.Equal(t, out.norms[0], out.norms[r])
		for _, p := range out.params[r] {
			o.note(t, "w", p, 0, p.W)
			for _, h := range out.opts[r].States()[p] {
				o.note(t, string(h.Role), p, h.Place.Lo, h.Tensor)
			}
		}
	}
	return o
}

func layouts(t *testing.T, texts ...string) (all []parallel.Layout) {
	for _, text := range texts {
		l, err := parallel.ParseLayout(text)
		require.NoError(t, err)
		all = append(all, l)
	}
	return all
}

const contributions = 48 // of every element, dealt to the ranks that each see some of the tokens

// whole is contribution k of an element: small whole numbers, whose sums are exact in any order.
func whole(name string, element, step, k int) float64 {
	r := rand.New(rand.NewPCG(uint64(len(name))<<32+uint64(name[0]), uint64(element<<20+step<<8+k)))
	return float64(r.IntN(9) - 4)
}

// deal is which contributions a rank brings: those of every seers-th, or where both ends have one, half of them.
func deal(r parallel.Rank, s sketch) (first, stride int) {
	m := r.Data()
	if s.expert {
		m = r.EDP()
	}
	first, stride = m.Index, m.Size()
	if s.tp < 0 {
		first, stride = first*r.TP().Size()+r.TP().Index, stride*r.TP().Size()
	}
	if s.ends && r.Layout().PP > 1 {
		first, stride = 2*first+r.Ends().Index, 2*stride
	}
	return first, stride
}

func fillWhole(_ *device.Device, r parallel.Rank, s sketch, p *nn.Param, step int) {
	first, stride := deal(r, s)
	for i := range p.Grad.Len() {
		sum := 0.0
		for k := first; k < contributions; k += stride {
			sum += whole(s.name, p.Place.Index(i), step, k)
		}
		p.Grad.Set(i, sum)
	}
}

// In every layout, weights, masters and moments are those of one optimizer that sees the sum of all that ranks bring, and so is the norm, which
// counts every element once: bit for bit, for the sums are of whole numbers.
func TestEveryLayoutIsAdamWOfTheSum(t *testing.T) {
	one := func(c Config, ps []*nn.Param, _ parallel.Rank, _ int) *AdamW { return alone(c, ps) }
	want := steps(t, parallel.Layout{}, one, fillWhole)
	require.Len(t, want.bits, 4*(48+7+48+48+9+20)+3*(40+12), "two are in full precision, and have no master")
	for _, l := range layouts(t, "dp=1", "dp=2", "dp=3", "tp=2,dp=2", "tp=2", "cp=2,dp=2", "tp=2,cp=2,dp=2", "dp=4,ep=4", "dp=4,ep=2", "tp=2,dp=2,ep=2,etp=2",
		"tp=2,dp=2,ep=4", "tp=4,ep=2,dp=1", "etp=2,dp=2", "pp=2", "pp=3,tp=2,dp=2", "pp=2,tp=2,cp=2,dp=2,ep=2,etp=2", "pp=4,dp=3") {
		have := steps(t, l, plain, fillWhole)
		require.Equal(t, want, have, "%s", l)
		exact := steps(t, l, canonical, fillJoined, canonicalPlans)
		require.Equal(t, want, exact, "canonical %s", l)
		require.Equal(t, want, steps(t, l, replicated(plain), fillWhole), "replicated %s", l)
		require.Equal(t, want, steps(t, l, replicated(canonical), fillJoined, canonicalPlans), "replicated, canonical %s", l)
	}
	// Negative controls: each kind of parameter is one, in a layout where it matters.
	l := layouts(t, "tp=2,dp=4,ep=4,pp=2")[0]
	for name, change := range map[string]func(p *nn.Param){
		"norm.w": func(p *nn.Param) { p.Sequence = false }, "w1": func(p *nn.Param) { p.Expert = false }, "embed": func(p *nn.Param) { p.Ends = false },
	} {
		for _, build := range []building{plain, replicated(plain)} {
			out := train(t, l, func(c Config, ps []*nn.Param, r parallel.Rank, bucket int) *AdamW {
				for _, p := range ps {
					if p.Name == name {
						change(p)
					}
				}
				return build(c, ps, r, bucket)
			}, fillWhole)
			require.NotEqual(t, want.norms, out.norms[0], name)
		}
	}
}

// usesOf are the uses of a parameter on a rank. At the ends of a pipeline the last has the first in backward order.
func (s sketch) usesOf(r parallel.Rank) []int {
	if s.ends && r.Ends().Size() > 1 {
		return []int{1 - r.Ends().Index}
	}
	return []int{0, 1}[:s.uses]
}

// joined says of which share of the contributions a rank has the sum under the canonical recipe, where microbatches were joined.
func joined(r parallel.Rank, s sketch) (share, shares int) {
	m := r.DP()
	if l := r.Layout(); s.expert && l.EP*l.ETP >= l.TP*l.CP {
		m = r.EDP()
	}
	return m.Index, m.Size()
}

func fillJoined(dev *device.Device, r parallel.Rank, s sketch, p *nn.Param, step int) {
	share, shares := joined(r, s)
	from, to := share*contributions/shares, (share+1)*contributions/shares
	for _, use := range s.usesOf(r) {
		dw := device.NewTensor(p.Grad.Format, p.Grad.Shape()...)
		for i := range dw.Len() {
			sum := 0.0
			for k := from; k < to; k++ {
				if k%s.uses == use {
					sum += whole(s.name, p.Place.Index(i), step, k)
				}
			}
			dw.Set(i, sum)
		}
		nn.Accumulate(dev, fmt.Sprint(p.Name, ".use", use), p, dw)
	}
}

// fillParts is fillJoined with numbers whose sums are rounded: eight microbatches, of which a rank has some, joined pairwise.
func fillParts(dev *device.Device, r parallel.Rank, s sketch, p *nn.Param, step int) {
	share, shares := joined(r, s)
	n := 8 / shares
	leaves, tree := make([]float32, n), reduce.Pairwise.Tree(n)
	for _, use := range s.usesOf(r) {
		dw := device.NewTensor(p.Grad.Format, p.Grad.Shape()...)
		for i := range dw.Len() {
			for k := range leaves {
				leaves[k] = part(s.name, p.Place.Index(i), step, use, share*n+k)
			}
			dw.Set(i, float64(tree.Sum(leaves, lowp.FP32)))
		}
		nn.Accumulate(dev, fmt.Sprint(p.Name, ".use", use), p, dw)
	}
}

func part(name string, element, step, use, k int) float32 {
	r := rand.New(rand.NewPCG(uint64(len(name))<<32+uint64(name[0]), uint64(element<<24+step<<16+use<<8+k)))
	return float32(r.NormFloat64() * math.Exp2(float64(r.IntN(20))))
}

// The canonical recipe has one rank's bits in every layout, and its norm is that of the exact sum; the fixed recipe's bits move.
func TestCanonicalLayouts(t *testing.T) {
	want := steps(t, parallel.Layout{}, canonical, fillParts, canonicalPlans)
	for step, bits := range want.norms {
		require.Equal(t, exactly(step+1), bits)
	}
	for _, l := range layouts(t, "dp=2", "dp=8", "tp=2,dp=2", "tp=4,dp=2", "cp=2,dp=2", "tp=2,cp=2,dp=2", "dp=4,ep=4", "dp=8,ep=2", "tp=2,dp=2,ep=2,etp=2",
		"tp=2,dp=2,ep=4", "tp=4,ep=2,dp=1", "tp=2,cp=2,dp=2,ep=2", "pp=2", "pp=3,tp=2,dp=2", "pp=2,tp=2,cp=2,dp=2,ep=2,etp=2", "pp=4,dp=4") {
		require.Equal(t, want, steps(t, l, canonical, fillParts, canonicalPlans), "%s", l)
		require.Equal(t, want, steps(t, l, replicated(canonical), fillParts, canonicalPlans), "replicated %s", l)
	}
	plain := steps(t, parallel.Layout{DP: 8}, canonical, fillParts)
	require.NotEqual(t, want.bits, plain.bits, "negative control: ranks in a ring")
}

// exactly is the norm of a step's gradients: each is the pairwise sum of its parts, uses in order; their squares add up without rounding.
func exactly(step int) string {
	sum, tree := new(big.Float).SetPrec(600), reduce.Pairwise.Tree(8)
	leaves := make([]float32, 8)
	for _, s := range sketches {
		n := 1
		for _, d := range s.shape {
			n *= d
		}
		for e := range n {
			var g float32
			for use := range s.uses {
				for k := range leaves {
					leaves[k] = part(s.name, e, step, use, k)
				}
				if v := tree.Sum(leaves, lowp.FP32); use == 0 {
					g = v
				} else {
					g += v
				}
			}
			b := new(big.Float).SetPrec(600).SetFloat64(float64(g))
			sum.Add(sum, new(big.Float).SetPrec(600).Mul(b, b))
		}
	}
	f, _ := sum.Float64()
	t := device.NewTensor(lowp.FP32, 1)
	t.F32()[0] = float32(math.Sqrt(f))
	return t.Bits(0)
}
