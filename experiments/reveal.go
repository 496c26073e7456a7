package experiments

import (
	"cmp"
	"fmt"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/model"
	"firstbit/moe"
	"firstbit/nn"
	"firstbit/reduce"
	"firstbit/spell"
	"firstbit/ssm"
	"firstbit/tune"
)

// revealable is a kernel's sum laid bare: run makes it add exactly the n values of x.
type revealable struct {
	name      string // of the kernel
	label     string // of the Call
	reduction string // of the plan, whose accumulate format fits the probe
	run       func(dev *device.Device, x []float32) float32
}

var revealables = []revealable{
	{"matmul", "y", "k", func(dev *device.Device, x []float32) float32 {
		return nn.Multiply(nn.NN, tensorOf(x, 1, len(x)), ones(len(x), 1)).Run(dev, "y").F32()[0]
	}},
	{"matmul.wgrad", "dw", "k", func(dev *device.Device, x []float32) float32 {
		return nn.Multiply(nn.TN, tensorOf(x, len(x), 1), ones(len(x), 1)).Run(dev, "dw").F32()[0]
	}},
	{"grouped_gemm.dprob", "w2.dx", "n", revealDProb},
	{"embedding.bwd", "embed.dw", "tokens", func(dev *device.Device, x []float32) float32 {
		e := model.Embedding{W: nn.NewParam("w", lowp.FP32, true, 1, 1)}
		e.Forward(dev, device.NewTensor(lowp.INT32, len(x)))
		e.Backward(dev, tensorOf(x, len(x), 1))
		return e.W.Grad.F32()[0]
	}},
	// the state after the last step: inside chunks by the plan, then chunk after chunk
	{"ssd", "scan", "steps", func(dev *device.Device, x []float32) float32 {
		n := len(x)
		_, last := ssm.Scan(dev, &ssm.Sequence{X: tensorOf(x, n, 1), B: ones(n, 1), C: ones(n, 1), DT: ones(n, 1),
			LA: device.NewTensor(lowp.FP32, n, 1), D: ones(1), Batch: 1, Groups: 1})
		return last.F32()[0]
	}},
	{"rmsnorm.wgrad", "norm.dw", "rows", func(dev *device.Device, x []float32) float32 {
		n := model.RMSNorm{W: nn.NewParam("w", lowp.FP32, false, 1)} // ε = 0: rows of 1 have rstd 1
		n.Forward(dev, ones(len(x), 1))
		n.Backward(dev, tensorOf(x, len(x), 1))
		return n.W.Grad.F32()[0]
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

// Reveal recovers the order in which a kernel adds n values, from its outputs alone. plan sets items
// of the kernel's fixed plan. It returns the plan the kernel ran by.
func Reveal(kernel, plan string, n int, s device.Schedule) (reduce.Revealed, reduce.Plan, error) {
	var none reduce.Revealed
	for _, r := range revealables {
		if r.name != kernel {
			continue
		}
		var policies []*tune.Policy
		if plan != "" {
			p, err := reduce.ParsePlan(plan)
			if err == nil && p.Empty() {
				err = fmt.Errorf("--plan %q: names nothing to choose", plan)
			}
			if err != nil {
				return none, reduce.Plan{}, err
			}
			policies = append(policies, &tune.Policy{Glob: r.label, Plan: p, Where: tune.Everywhere(tune.EveryPhase)})
		}
		if n < 1 || n > maxReveal {
			return none, reduce.Plan{}, fmt.Errorf("-n %d: must be from 1 to %d", n, maxReveal)
		}
		return r.reveal(policies, n, s)
	}
	return none, reduce.Plan{}, fmt.Errorf("kernel %q: %s", kernel, spell.OneOf(kernel, RevealNames()))
}

const maxReveal = 1024 // the questions asked grow with n²

func (r revealable) reveal(policies []*tune.Policy, n int, s device.Schedule) (reduce.Revealed, reduce.Plan, error) {
	var plan reduce.Plan
	tuner := tune.Tuner{Recipe: tune.Recipes[0], Policies: policies}
	watch := func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			if c.Label == r.label {
				plan = c.Plan
			}
			next(c)
		}
	}
	var dev *device.Device
	sum := func(x []float32) float32 { // a device of its own: the same ID each time, so the same arrival
		dev = device.New(device.Options{Schedule: s}, tuner.Middleware, watch)
		dev.At(1, 0, device.Bwd)
		return r.run(dev, x)
	}
	sum(make([]float32, n))
	if err := cmp.Or(tuner.Err(), dev.Err()); err != nil {
		return reduce.Revealed{}, plan, err
	}
	out, err := reduce.Reveal(n, sum, plan.Reduction(r.reduction).Acc)
	return out, plan, err
}
