package ssm

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/parallel"
	"firstbit/reduce"
	"firstbit/state"
)

// wide is a layer with four groups, whose every sum that ranks may share divides by eight, and whose sequences are no shorter in
// eight parts than the convolution needs.
func wide(batch int) shape {
	return shape{Config{Heads: 8, HeadDim: 4, State: 6, Groups: 4, Conv: 4}, batch, 32, 16}
}

// ranks is a layer that the ranks of a layout share.
type ranks struct {
	layout    parallel.Layout
	whole     *bench // has the weights, the input and the projection of the output
	shape     shape
	canonical bool
	slices    bool               // sums that ranks share are cut into slices of ⌈n/8⌉
	undo      string             // the label that keeps its fixed plan all the same
	spoil     func(*device.Call) // sees every Call once it ran
}

// rules are the plans that the tuner makes of the canonical recipe.
func (r *ranks) rules(next device.Runner) device.Runner {
	return func(c *device.Call) {
		if r.canonical && c.Label != r.undo {
			plan := must(c.Plan.With(c.Kernel.Canonical))
			if name := c.Kernel.Tokens; name != "" {
				sum := plan.Reduction(name)
				sum.Order = reduce.Blocked(r.shape.steps / device.Segments)
				plan = must(plan.With(reduce.PlanOf(sum)))
			}
			if name := c.Kernel.Sharded; name != "" {
				sum := plan.Reduction(name)
				sum.Order = reduce.Segments(device.Segments / c.Shards)
				if r.slices {
					sum.Order = reduce.MustOrder(fmt.Sprintf("splitk(%d,pairwise)", device.Segments/c.Shards))
				}
				plan = must(plan.With(reduce.PlanOf(sum)))
			}
			c.Plan = plan
		}
		next(c)
		if r.spoil != nil {
			r.spoil(c)
		}
	}
}

func must(p reduce.Plan, err error) reduce.Plan {
	if err != nil {
		panic(err)
	}
	return p
}

// cuts are the dimensions that tensor parallelism cuts, in the order of Params.
var cuts = []int{1, 0, 0, 0, 0, 0, 0, 0}

// part is what a rank has of the layer.
func (r *ranks) part(rank parallel.Rank) *Mamba {
	tp, cp := rank.TP(), rank.CP()
	m := &Mamba{Config: r.shape.Config, Eps: r.whole.Eps, Batch: r.shape.batch, TP: tp, CP: cp}
	m.Heads, m.Groups = m.Heads/tp.Size(), m.Groups/tp.Size()
	to := []**nn.Param{&m.InProj, &m.Conv, &m.ConvBias, &m.DTBias, &m.ALog, &m.Skip, &m.Norm, &m.OutProj}
	for i, w := range r.whole.Params() {
		p := nn.NewPart(w.Name, w.W.Format, true, w.W.Shape(), state.Cut{Dim: cuts[i], Part: tp.Index, Parts: tp.Size()})
		for e := range p.W.Len() {
			p.Master.Set(e, w.Master.Value(p.Place.Index(e)))
		}
		p.W.CopyFrom(p.Master)
		p.Join = func(dev *device.Device, label string, dw *device.Tensor) *device.Tensor {
			return cp.AllReduce(dev, label+".sum", dw)
		}
		*to[i] = p
	}
	return m
}

// rows are the numbers of the rows that a rank has outside the products: its steps of every sequence, and of those a run.
func (r *ranks) rows(rank parallel.Rank) (at []int) {
	tp, cp := rank.TP(), rank.CP()
	n := r.shape.steps / cp.Size()
	for b := range r.shape.batch {
		for t := range n {
			at = append(at, b*r.shape.steps+cp.Index*n+t)
		}
	}
	n = len(at) / tp.Size()
	return at[tp.Index*n:][:n]
}

// run is what the ranks make together: the output and the gradients of the input and of every weight.
func (r *ranks) run(t *testing.T) [][]float64 {
	t.Helper()
	d := r.shape.width
	out := [][]float64{make([]float64, r.whole.x.Len()), make([]float64, r.whole.x.Len())}
	for _, p := range r.whole.Params() {
		out = append(out, make([]float64, p.W.Len()))
	}
	w := parallel.NewWorld(r.layout, 4)
	require.NoError(t, w.Run(func(rank parallel.Rank) error {
		m, at := r.part(rank), r.rows(rank)
		x, dy := device.NewTensor(r.whole.x.Format, len(at), d), device.NewTensor(r.whole.x.Format, len(at), d)
		for i, row := range at {
			for j := range d {
				x.Set(i*d+j, r.whole.x.Value(row*d+j))
				dy.Set(i*d+j, r.whole.dy.Value(row*d+j))
			}
		}
		dev := device.New(device.Options{Rank: rank.Index, At: rank.World.At(rank.Index)}, r.rules)
		dev.At(1, 0, device.Fwd)
		y := m.Forward(dev, x)
		dev.Enter(device.Rec)
		m.Forward(dev, x)
		dev.Enter(device.Bwd)
		dx := m.Backward(dev, dy)
		for i, row := range at {
			for j := range d {
				out[0][row*d+j], out[1][row*d+j] = y.Value(i*d+j), dx.Value(i*d+j)
			}
		}
		for n, p := range m.Params() {
			for i := range p.Grad.Len() {
				if rank.CP().Index == 0 {
					out[2+n][p.Place.Index(i)] = p.Grad.Value(i)
				}
			}
		}
		return dev.Err()
	}), "%s", r.layout)
	return out
}

func newRanks(layout string, batch int, f lowp.Format, canonical bool) *ranks {
	l, err := parallel.ParseLayout(layout)
	if err != nil {
		panic(err)
	}
	return &ranks{layout: l, whole: newBench(wide(batch), f, 0), shape: wide(batch), canonical: canonical}
}

// layouts share a layer of four groups and sequences of eight segments.
var layouts = []string{"tp=2", "tp=4", "cp=2", "cp=4", "cp=8", "tp=2,cp=2", "tp=4,cp=2", "tp=2,cp=4"}

// far is the largest difference of two results, relative to the largest element of each tensor.
func far(got, want [][]float64) (worst float64) {
	for n := range want {
		scale := 0.0
		for _, v := range want[n] {
			scale = max(scale, math.Abs(v))
		}
		for i, v := range want[n] {
			worst = max(worst, math.Abs(got[n][i]-v)/scale)
		}
	}
	return worst
}

// same compares bits, of zeros too.
func same(a, b [][]float64) bool {
	return slices.EqualFunc(a, b, func(x, y []float64) bool {
		return slices.EqualFunc(x, y, func(v, w float64) bool { return math.Float64bits(v) == math.Float64bits(w) })
	})
}

// zeroed makes a tensor that a Call received nothing.
func zeroed(label string, phase device.Phase) func(*device.Call) {
	return func(c *device.Call) {
		if c.Label == label && c.ID.Phase == phase {
			for i := range c.Out[0].Len() {
				c.Out[0].Set(i, 0)
			}
		}
	}
}

// dropped are the messages of context-parallel ranks.
var dropped = []struct {
	label string
	phase device.Phase
}{{"conv.halo.recv", device.Rec}, {"conv.halo.recv", device.Bwd}, {"state.recv", device.Rec}, {"state.recv", device.Bwd}}

// Ranks compute what one does, whatever the layout; and each message counts.
func TestRanksAreNearOne(t *testing.T) {
	const near = 1e-11
	want := newRanks("", 2, lowp.FP64, false).run(t)
	one := newBench(wide(2), lowp.FP64, 0)
	require.True(t, same(want[1:], one.gradients()), "the harness runs the layer")
	for _, l := range layouts {
		require.Less(t, far(newRanks(l, 2, lowp.FP64, false).run(t), want), near, l)
	}
	for _, d := range dropped {
		r := newRanks("cp=4", 2, lowp.FP64, false)
		r.spoil = zeroed(d.label, d.phase)
		require.Greater(t, far(r.run(t), want), near, "%s %s was dropped and nothing noticed", d.phase, d.label)
	}
}

// Under the canonical recipe every layout has the bits of one rank.
func TestCanonicalRanksAreOne(t *testing.T) {
	for _, f := range []lowp.Format{lowp.FP32, lowp.BF16} {
		want := newRanks("", 1, f, true).run(t)
		fixed := newRanks("", 1, f, false).run(t)
		for _, l := range layouts {
			got := newRanks(l, 1, f, true).run(t)
			for i, name := range []string{"y", "x", "in_proj", "conv.w", "conv.b", "dt_bias", "a_log", "d", "norm.w", "out_proj"} {
				require.True(t, same(want[i:i+1], got[i:i+1]), "%s %s: %s", l, f, name)
			}
			// Partial sums rounded once to bf16 mostly agree with one sum.
			require.True(t, f == lowp.BF16 && !strings.Contains(l, "cp") || !same(fixed, newRanks(l, 1, f, false).run(t)), "negative control: fixed plans, %s in %s", l, f)
		}
	}
}

// Each item of the canonical plans is needed. (In fp32: to bf16 most of the differences round away.)
func TestCanonicalRanksNeedEveryItem(t *testing.T) {
	for layout, labels := range map[string][]string{
		"cp=8": {"scan", "scan.dx", "a_log.dw", "conv.dw", "dt_bias.dw", "d.dw", "norm.dw", "in_proj.dw", "out_proj.dw"},
		"tp=4": {"out_proj", "in_proj.dx", "out_proj.scatter", "in_proj.dx.scatter"},
	} {
		for _, label := range labels {
			one, parted := newRanks("", 1, lowp.FP32, true), newRanks(layout, 1, lowp.FP32, true)
			one.undo, parted.undo = label, label
			require.False(t, same(one.run(t), parted.run(t)), "%s: %s by its fixed plan", layout, label)
		}
	}
}

// What cannot be parted is refused, and what is least is not.
func TestRefusedParts(t *testing.T) {
	c := wide(1).Config
	require.NoError(t, c.CheckContext(3))
	require.EqualError(t, c.CheckContext(2), "model.ssm.conv: 4: a context-parallel rank has 2 steps: must be at least 3, the steps that the first of the next rank sees")
	c.Conv = 1
	require.NoError(t, c.CheckContext(1))
}

// Widths that the segments do not divide have the same bits on several ranks too, unless they are cut into slices of ⌈n/8⌉.
func TestCanonicalWidths(t *testing.T) {
	for i, c := range []Config{wide(1).Config, {Heads: 6, HeadDim: 4, State: 5, Groups: 2, Conv: 4}, {Heads: 4, HeadDim: 3, State: 5, Groups: 2, Conv: 4}} {
		runs := func() (one, parted *ranks) {
			one, parted = newRanks("", 1, lowp.FP32, true), newRanks("tp=2", 1, lowp.FP32, true)
			for _, r := range []*ranks{one, parted} {
				r.shape.Config = c
				r.whole = newBench(r.shape, lowp.FP32, 0)
			}
			return one, parted
		}
		one, parted := runs()
		require.True(t, same(one.run(t), parted.run(t)), "%+v", c)
		one, parted = runs()
		one.slices, parted.slices = true, true
		require.Equal(t, i == 0, same(one.run(t), parted.run(t)), "%+v", c)
	}
}

// The convolution of one tap has no halo.
func TestOneTapSendsNothing(t *testing.T) {
	one, parted := newRanks("", 1, lowp.FP32, true), newRanks("cp=4", 1, lowp.FP32, true)
	for _, r := range []*ranks{one, parted} {
		r.shape.Config.Conv = 1
		r.whole = newBench(r.shape, lowp.FP32, 0)
		r.spoil = func(c *device.Call) { require.NotContains(t, c.Label, "halo") }
	}
	require.True(t, same(one.run(t), parted.run(t)))
}
