package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/parallel"
	"firstbit/reduce"
	"firstbit/rng"
	"firstbit/state"
)

// The layers on tensor- and context-parallel ranks against the same layers on one.

const shareT, shareD, shareV = 16, 24, 256

// whole is a weight that ranks have parts of, cut along one dimension.
type whole struct {
	name  string
	shape []int
	cut   int
}

// network is what a rank runs of a layer.
type network struct {
	forward  func(dev *device.Device, x *device.Tensor) *device.Tensor
	backward func(dev *device.Device, dy *device.Tensor) *device.Tensor
}

type denseLayer struct {
	weights []whole
	build   func(p []*nn.Param, r parallel.Rank, b int, rows []int) network
}

var denseLayers = map[string]denseLayer{
	"mlp": {
		[]whole{{"w1", []int{shareD, 40}, 1}, {"w2", []int{40, shareD}, 0}},
		func(p []*nn.Param, r parallel.Rank, _ int, _ []int) network {
			m := &MLP{W1: p[0], W2: p[1], TP: r.TP()}
			return network{m.Forward, m.Backward}
		},
	},
	"attention": {
		[]whole{{"wq", []int{shareD, 48}, 1}, {"wk", []int{shareD, 24}, 1}, {"wv", []int{shareD, 24}, 1}, {"wo", []int{48, shareD}, 0}},
		func(p []*nn.Param, r parallel.Rank, b int, _ []int) network {
			tp := r.TP().Size()
			a := &Attention{Wq: p[0], Wk: p[1], Wv: p[2], Wo: p[3], TP: r.TP(), CP: r.CP(),
				Shape: attentionShape{B: b, T: shareT, H: 16 / tp, KV: 8 / tp, P: 3}}
			return network{a.Forward, a.Backward}
		},
	},
	"vocabulary": {
		[]whole{{"embed", []int{shareV, shareD}, 0}, {"head", []int{shareV, shareD}, 0}},
		func(p []*nn.Param, r parallel.Rank, b int, rows []int) network {
			return vocabulary(p[0], p[1], r, b, rows)
		},
	},
	"tied vocabulary": {
		[]whole{{"embed", []int{shareV, shareD}, 0}},
		func(p []*nn.Param, r parallel.Rank, b int, rows []int) network {
			return vocabulary(p[0], p[0], r, b, rows)
		},
	},
}

// vocabulary is the embedding right under the head: its y is the loss, its dx what reaches the embedding.
func vocabulary(embed, head *nn.Param, r parallel.Rank, b int, rows []int) network {
	e, h := &Embedding{W: embed, TP: r.TP()}, &Head{W: head, TP: r.TP(), CP: r.CP()}
	ids, targets := device.NewTensor(lowp.INT32, b, len(rows)/b), device.NewTensor(lowp.INT32, b, len(rows)/b)
	for i, row := range rows {
		ids.I32()[i], targets.I32()[i] = int32(row*row%13*21%shareV), int32(row*37%shareV)
		if row%9 == 4 {
			targets.I32()[i] = -1
		}
	}
	return network{
		func(dev *device.Device, _ *device.Tensor) *device.Tensor {
			loss, _ := h.Forward(dev, e.Forward(dev, ids), targets)
			return loss
		},
		func(dev *device.Device, _ *device.Tensor) *device.Tensor {
			dx := h.Backward(dev, 0.25)
			e.Backward(dev, dx)
			return dx
		},
	}
}

// shareRun is one run of a layer.
type shareRun struct {
	layer     string
	layout    string
	format    lowp.Format
	batch     int
	steps     int // 0: one
	canonical bool
	broken    device.Middleware // nil: nothing is
}

// shareResult is what the ranks got, put together as one rank has it.
type shareResult map[string][]float64

func (s shareRun) do(t *testing.T) shareResult {
	t.Helper()
	l, err := parallel.ParseLayout(s.layout)
	require.NoError(t, err)
	made := make([]shareResult, l.World())
	w := parallel.NewWorld(l, 4)
	got := shareResult{}
	require.NoError(t, w.Run(func(r parallel.Rank) error {
		dev := s.device(r)
		made[r.Index] = s.rank(dev, r)
		return dev.Err()
	}))
	for i := range made {
		s.place(got, made[i], w.Rank(i))
	}
	return got
}

func (s shareRun) device(r parallel.Rank) *device.Device {
	var m []device.Middleware
	if s.canonical {
		m = append(m, canonicalPlans)
	}
	if s.broken != nil {
		m = append(m, s.broken)
	}
	return device.New(device.Options{Rank: r.Index, At: r.World.At(r.Index)}, m...)
}

// canonicalPlans is the canonical recipe, which stands above this package.
func canonicalPlans(next device.Runner) device.Runner {
	return func(c *device.Call) {
		items := []reduce.Plan{c.Kernel.Canonical}
		if name := c.Kernel.Tokens; name != "" {
			items = append(items, reduce.MustPlan(fmt.Sprintf("%s:blocked(%d)/fp32", name, shareT/8)))
		}
		if name := c.Kernel.Sharded; name != "" {
			items = append(items, reduce.MustPlan(fmt.Sprintf("%s:segments(%d)/fp32", name, 8/c.Shards)))
		}
		for _, p := range items {
			plan, err := c.Plan.With(p)
			if err != nil {
				panic(err)
			}
			c.Plan = plan
		}
		next(c)
	}
}

// replanned sets items of a kernel's plans.
func replanned(kernel, plan string) device.Middleware {
	return func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			if c.Kernel.Name == kernel {
				p, err := c.Plan.With(reduce.MustPlan(plan))
				if err != nil {
					panic(err)
				}
				c.Plan = p
			}
			next(c)
		}
	}
}

// shares are the rows of a batch that a rank has of the whole: those of its steps, and of these its own run.
func (s shareRun) shares(r parallel.Rank) (steps, own []int) {
	cp, n := r.CP(), shareT/r.CP().Size()
	for b := range s.batch {
		for t := range n {
			steps = append(steps, b*shareT+cp.Index*n+t)
		}
	}
	tp := r.TP()
	return steps, steps[tp.Index*len(steps)/tp.Size():][:len(steps)/tp.Size()]
}

// drawn is a whole tensor, the same for all who ask.
func drawn(name string, n int, scale float64) []float64 {
	r := rand.New(rand.NewPCG(rng.HashString(name), 1))
	x := make([]float64, n)
	for i := range x {
		x[i] = scale * r.NormFloat64()
	}
	return x
}

// drawnRows are some rows of a whole tensor.
func drawnRows(name string, f lowp.Format, n int, rows []int) *device.Tensor {
	x, all := device.NewTensor(f, len(rows), shareD), drawn(name, n*shareD, 1)
	for i, row := range rows {
		for j := range shareD {
			x.Set(i*shareD+j, all[row*shareD+j])
		}
	}
	return x
}

// places are where a part's elements lie in the whole weight.
func (w whole) places(tp parallel.Member) []int {
	inner, n := 1, 1
	for i, d := range w.shape {
		n *= d
		if i > w.cut {
			inner *= d
		}
	}
	run := w.shape[w.cut] / tp.Size() * inner
	var at []int
	for lo := tp.Index * run; lo < n; lo += run * tp.Size() {
		for i := range run {
			at = append(at, lo+i)
		}
	}
	return at
}

func (w whole) part(f lowp.Format, r parallel.Rank) *nn.Param {
	p := nn.NewPart(w.name, f, true, w.shape, state.Cut{Dim: w.cut, Part: r.TP().Index, Parts: r.TP().Size()})
	all := drawn(w.name, p.W.Len()*r.TP().Size(), 0.3)
	for i, at := range w.places(r.TP()) {
		p.Master.Set(i, all[at])
	}
	p.W.CopyFrom(p.Master)
	if r.CP().Size() > 1 {
		p.Join = func(d *device.Device, label string, dw *device.Tensor) *device.Tensor {
			return r.CP().AllReduce(d, label+".join", dw)
		}
	}
	return p
}

func (s shareRun) rank(dev *device.Device, r parallel.Rank) shareResult {
	layer := denseLayers[s.layer]
	var params []*nn.Param
	for _, w := range layer.weights {
		params = append(params, w.part(s.format, r))
	}
	steps, own := s.shares(r)
	net := layer.build(params, r, s.batch, steps)
	x, gradient := drawnRows("x", s.format, s.batch*shareT, own), drawnRows("dy", s.format, s.batch*shareT, own)
	var y, dx *device.Tensor
	for step := range max(s.steps, 1) {
		dev.At(step+1, 0, device.Fwd)
		y = net.forward(dev, x)
		dev.At(step+1, 0, device.Bwd)
		dx = net.backward(dev, gradient)
	}
	got := shareResult{"y": values(y), "dx": values(dx)}
	for _, p := range params {
		got[p.Name] = values(p.Grad)
	}
	return got
}

func values(x *device.Tensor) []float64 {
	v := make([]float64, x.Len())
	for i := range v {
		v[i] = x.Value(i)
	}
	return v
}

// place puts a rank's part where it belongs; what several ranks have must be the same on all.
func (s shareRun) place(all, part shareResult, r parallel.Rank) {
	put := func(name string, n int, at []int) {
		if all[name] == nil {
			all[name] = make([]float64, n)
			for i := range n {
				all[name][i] = math.Inf(1)
			}
		}
		for i, v := range part[name] {
			if was := all[name][at[i]]; !math.IsInf(was, 1) && math.Float64bits(was) != math.Float64bits(v) {
				v = math.NaN()
			}
			all[name][at[i]] = v
		}
	}
	_, own := s.shares(r)
	var at []int
	for _, row := range own {
		for j := range shareD {
			at = append(at, row*shareD+j)
		}
	}
	put("dx", s.batch*shareT*shareD, at)
	if len(part["y"]) == 1 {
		at = []int{0}
		put("y", 1, at)
	} else {
		put("y", s.batch*shareT*shareD, at)
	}
	for _, w := range denseLayers[s.layer].weights {
		places := w.places(r.TP())
		put(w.name, len(places)*r.TP().Size(), places)
	}
}

// apart is the largest difference relative to the largest value, and whether any bit differs.
func apart(want, got shareResult) (worst float64, bits bool) {
	for name := range want {
		scale := 0.0
		for _, v := range want[name] {
			scale = max(scale, math.Abs(v))
		}
		for i, v := range want[name] {
			bits = bits || math.Float64bits(v) != math.Float64bits(got[name][i])
			d := math.Abs(v-got[name][i]) / scale
			if math.IsNaN(d) { // ranks do not agree
				d = math.Inf(1)
			}
			worst = max(worst, d)
		}
	}
	return worst, bits
}
