package experiments

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/model"
	"firstbit/moe"
	"firstbit/nn"
	"firstbit/parallel"
	"firstbit/reduce"
	"firstbit/spell"
	"firstbit/ssm"
	"firstbit/tune"
)

// revealable is a kernel's sum laid bare: run makes it add exactly the n values of x.
type revealable struct {
	name      string // of the kernel
	label     string // of the Call
	reduction string // of the plan, whose formats fit the probe
	run       func(dev *device.Device, x []float32) float32
	among     func(m parallel.Member, dev *device.Device, x *device.Tensor) *device.Tensor // of a collective, which adds what n ranks bring; run is nil
}

var revealables = []revealable{
	{name: "matmul", label: "y", reduction: "k", run: func(dev *device.Device, x []float32) float32 {
		return nn.Multiply(nn.NN, tensorOf(x, 1, len(x)), ones(len(x), 1)).Run(dev, "y").F32()[0]
	}},
	{name: "matmul.dgrad", label: "dx", reduction: "k", run: func(dev *device.Device, x []float32) float32 {
		return nn.Multiply(nn.NT, tensorOf(x, 1, len(x)), ones(1, len(x))).Run(dev, "dx").F32()[0]
	}},
	{name: "matmul.wgrad", label: "dw", reduction: "k", run: func(dev *device.Device, x []float32) float32 {
		return nn.Multiply(nn.TN, tensorOf(x, len(x), 1), ones(len(x), 1)).Run(dev, "dw").F32()[0]
	}},
	{name: "grouped_gemm.dprob", label: "w2.dx", reduction: "n", run: revealDProb},
	{name: "embedding.bwd", label: "embed.dw", reduction: "tokens", run: func(dev *device.Device, x []float32) float32 {
		e := model.Embedding{W: nn.NewParam("w", lowp.FP32, true, 1, 1)}
		e.Forward(dev, device.NewTensor(lowp.INT32, len(x)))
		e.Backward(dev, tensorOf(x, len(x), 1))
		return e.W.Grad.F32()[0]
	}},
	// the state after the last step: inside chunks by the plan, then chunk after chunk
	{name: "ssd", label: "scan", reduction: "steps", run: func(dev *device.Device, x []float32) float32 {
		n := len(x)
		_, last := ssm.Scan(dev, &ssm.Sequence{X: tensorOf(x, n, 1), B: ones(n, 1), C: ones(n, 1), DT: ones(n, 1),
			LA: device.NewTensor(lowp.FP32, n, 1), D: ones(1), Batch: 1, Groups: 1})
		return last.F32()[0]
	}},
	{name: "rmsnorm.wgrad", label: "norm.dw", reduction: "rows", run: func(dev *device.Device, x []float32) float32 {
		n := model.RMSNorm{W: nn.NewParam("w", lowp.FP32, false, 1)} // ε = 0: rows of 1 have rstd 1
		n.Forward(dev, ones(len(x), 1))
		n.Backward(dev, tensorOf(x, len(x), 1))
		return n.W.Grad.F32()[0]
	}},
	{name: "all_reduce", label: "y", reduction: "ranks", among: func(m parallel.Member, dev *device.Device, x *device.Tensor) *device.Tensor {
		return m.AllReduce(dev, "y", x)
	}},
	{name: "reduce_scatter", label: "y", reduction: "ranks", among: func(m parallel.Member, dev *device.Device, x *device.Tensor) *device.Tensor {
		return m.ReduceScatter(dev, "y", device.BufferOf("x", x))
	}},
}

// revealDProb runs one row through one expert of width 1: h = 1, so dprob = Σ_n W2[n].
func revealDProb(dev *device.Device, x []float32) float32 {
	f := len(x)
	e := moe.Experts{Config: moe.Config{Hidden: f, TileM: 16, TileN: 16, TileSub: 4},
		W1: nn.NewParam("w1", lowp.FP32, true, 1, 1, f), W2: nn.NewParam("w2", lowp.FP32, true, 1, f, 1)}
	copy(e.W1.W.F32(), ones(f, 1).F32())
	copy(e.W2.W.F32(), x)
	offsets := device.NewTensor(lowp.INT32, 2)
	offsets.I32()[1] = 1
	e.Forward(dev, ones(1, 1), ones(1), offsets)
	_, dprob := e.Backward(dev, ones(1, 1))
	return dprob.F32()[0]
}

func tensorOf(x []float32, shape ...int) *device.Tensor {
	t := device.NewTensor(lowp.FP32, shape...)
	copy(t.F32(), x)
	return t
}

func ones(shape ...int) *device.Tensor {
	t := device.NewTensor(lowp.FP32, shape...)
	for i := range t.F32() {
		t.F32()[i] = 1
	}
	return t
}

// RevealNames lists the kernels Reveal knows how to ask.
func RevealNames() []string {
	var names []string
	for _, r := range revealables {
		names = append(names, r.name)
	}
	return names
}

// IsCollective tells whether Reveal asks several ranks that kernel's sum.
func IsCollective(kernel string) bool {
	return slices.ContainsFunc(revealables, func(r revealable) bool { return r.name == kernel && r.run == nil })
}

// Revealing is what Reveal asks of a kernel.
type Revealing struct {
	Kernel   string
	Plan     string // items of the kernel's fixed plan to set
	N        int    // values, or ranks of a collective
	Schedule device.Schedule

	// Of a collective: the elements of its message, which of them is asked about, and the ranks of a node.
	Elements, Element, Node int
}

const maxReveal = 1024 // values: a question runs the kernel

// Reveal recovers the order in which a kernel adds, from its outputs alone. It returns the plan the kernel ran by.
func Reveal(q Revealing) (found reduce.Revealed, plan reduce.Plan, err error) {
	i := slices.IndexFunc(revealables, func(r revealable) bool { return r.name == q.Kernel })
	if i < 0 {
		return found, plan, fmt.Errorf("kernel %q: %s", q.Kernel, spell.OneOf(q.Kernel, RevealNames()))
	}
	r := revealables[i]
	var policies []*tune.Policy
	if q.Plan != "" {
		p, err := reduce.ParsePlan(q.Plan)
		if err == nil && p.Empty() {
			err = fmt.Errorf("--plan %q: names nothing to choose", q.Plan)
		}
		if err != nil {
			return found, plan, err
		}
		policies = append(policies, &tune.Policy{Glob: r.label, Plan: p, Where: tune.Everywhere(tune.EveryPhase)})
	}
	if q.N < 1 || q.N > maxReveal {
		return found, plan, fmt.Errorf("-n %d: must be from 1 to %d", q.N, maxReveal)
	}
	if r.run == nil {
		if q.N < 2 {
			return found, plan, errors.New("-n 1: a collective adds over 2 ranks or more")
		}
		if q.Elements < 1 || q.Element < 0 || q.Element >= q.Elements || q.Node < 1 {
			return found, plan, fmt.Errorf("--element %d of --elements %d over nodes of --node %d: must be an element of the message, and a rank or more", q.Element, q.Elements, q.Node)
		}
	}
	return r.reveal(q, policies)
}

func (r revealable) reveal(q Revealing, policies []*tune.Policy) (found reduce.Revealed, plan reduce.Plan, err error) {
	watch := func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			if c.Label == r.label && c.ID.At.DP == 0 {
				plan = c.Plan
			}
			next(c)
		}
	}
	ask := func(x []float32) (float64, error) { // a device of its own: the same ID each time, so the same arrival
		if r.run == nil {
			return r.collective(q, policies, watch, x)
		}
		tuner := tune.Tuner{Recipe: tune.Recipes[0], Policies: policies}
		dev := device.New(device.Options{Schedule: q.Schedule}, tuner.Middleware, watch)
		dev.At(1, 0, device.Bwd)
		sum := r.run(dev, x)
		return float64(sum), cmp.Or(tuner.Err(), dev.Err())
	}
	if _, err := ask(make([]float32, q.N)); err != nil {
		return found, plan, err
	}
	found, err = reduce.RevealBox(q.N, ask, plan.Reduction(r.reduction).Formats)
	return found, plan, err
}

// collective is the element asked about of a message of which every element is what the rank brings.
func (r revealable) collective(q Revealing, policies []*tune.Policy, watch device.Middleware, x []float32) (float64, error) {
	w := parallel.NewWorld(parallel.Layout{DP: q.N}, q.Node)
	owner, at := 0, q.Element
	if r.name == "reduce_scatter" {
		per := (q.Elements + q.N - 1) / q.N
		owner, at = q.Element/per, q.Element%per
	}
	sum := float32(0)
	err := w.Run(func(rank parallel.Rank) error {
		tuner := tune.Tuner{Rank: rank.Index, Recipe: tune.Recipes[0], Policies: policies}
		middleware := []device.Middleware{tuner.Middleware}
		if rank.Index == 0 {
			middleware = append(middleware, watch)
		}
		dev := device.New(device.Options{Rank: rank.Index, At: w.At(rank.Index), Schedule: q.Schedule}, middleware...)
		dev.At(1, 0, device.Opt)
		message := device.NewTensor(lowp.FP32, q.Elements)
		for i := range message.F32() {
			message.F32()[i] = x[rank.Index]
		}
		y := r.among(rank.DP(), dev, message)
		if rank.Index == owner {
			sum = y.F32()[at]
		}
		return cmp.Or(tuner.Err(), dev.Err())
	})
	return float64(sum), err
}
