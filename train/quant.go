package train

import (
	"fmt"
	"slices"

	"github.com/tidwall/match"

	"firstbit/device"
	"firstbit/quant"
	"firstbit/spell"
	"firstbit/state"
)

// Quant is how the operands of linear layers are quantised, for the precisions that do so.
type Quant struct {
	Scaling string   `json:"scaling"` // fp8: current, by a tensor's own amax, or delayed, by those of earlier steps
	History int      `json:"history"` // fp8, delayed: how many steps
	Rule    string   `json:"rule"`    // mxfp8: scales are rounded up, as TransformerEngine does, or floor, as OCP has it
	High    []string `json:"high"`    // GLOBs of weights' names whose products stay in bf16
}

// Scalings and Rules are the values of the fields.
var (
	Scalings = []string{"current", "delayed"}
	Rules    = []string{"up", "floor"}
)

// maxHistory bounds the amaxes that are kept for each operand.
const maxHistory = 1 << 16

// schemes are the precisions with quantised operands.
var schemes = map[string]quant.Scheme{"fp8": quant.FP8, "mxfp8": quant.MXFP8, "nvfp4": quant.NVFP4}

func (q Quant) validate(precision string) error {
	switch {
	case !slices.Contains(Scalings, q.Scaling):
		return fmt.Errorf("quant.scaling: %q: %s", q.Scaling, spell.OneOf(q.Scaling, Scalings))
	case q.History < 1 || q.History > maxHistory:
		return fmt.Errorf("quant.history: %d: must be from 1 to %d", q.History, maxHistory)
	case !slices.Contains(Rules, q.Rule):
		return fmt.Errorf("quant.rule: %q: %s", q.Rule, spell.OneOf(q.Rule, Rules))
	case q.Scaling != Scalings[0] && precision != "fp8":
		return fmt.Errorf("quant.scaling: %q: must be %s with precision %s", q.Scaling, Scalings[0], precision)
	case q.Rule != Rules[0] && precision != "mxfp8":
		return fmt.Errorf("quant.rule: %q: must be %s with precision %s", q.Rule, Rules[0], precision)
	case slices.Contains(q.High, ""):
		return fmt.Errorf("quant.high: %q: must be GLOBs of weights' names", q.High)
	}
	return nil
}

// recipe sets up the weights' recipe, before there are weights.
func (t *Trainer) recipe(canonical bool) {
	scheme, ok := schemes[t.Precision]
	if !ok {
		return
	}
	r := &quant.Recipe{Scheme: scheme, Floor: t.Quant.Rule == "floor"}
	if canonical {
		r.Micro = &quant.Microbatch{Batch: t.Batch, Seq: t.Seq, Window: t.Micro}
	}
	if scheme == quant.FP8 && t.Quant.Scaling == "delayed" {
		r.History = t.Quant.History
	}
	if scheme == quant.NVFP4 {
		r.Words = &quant.Words{Seed: t.Seed}
		if !t.indexed(canonical) {
			r.Words.Stream = t.weights.RoundingStream()
		}
	}
	t.weights.QuantiseLinear(r, t.Quant.High)
}

// checkHigh finds a GLOB that names no weight. A stage of a pipeline, which has some of the weights, cannot.
func (t *Trainer) checkHigh() error {
	for _, glob := range t.Quant.High {
		named := t.rank.PP().Size() > 1
		for _, p := range t.weights.Params() {
			named = named || t.weights.Linear(p) && match.Match(p.Name, glob)
		}
		if !named {
			return fmt.Errorf("quant.high: %q: names no weight of a linear layer", glob)
		}
	}
	return nil
}

// quantise makes the copies of weights from their masters. Where others have updated some, a rank gets them first.
func (t *Trainer) quantise(sharded bool) {
	if _, ok := schemes[t.Precision]; !ok {
		return
	}
	dev := t.dev.In("quant")
	if sharded {
		t.Optim.GatherMasters(dev)
	}
	t.weights.Quantise(dev)
}

// updateScales ends a step of delayed scaling.
func (t *Trainer) updateScales() {
	if all := t.weights.Delayed(); len(all) > 0 {
		quant.UpdateScales(t.dev.In("quant"), all, func(dev *device.Device, amax *device.Tensor) *device.Tensor {
			return t.rank.Stage().Largest(dev, "amax", amax)
		})
	}
}

// copies lists the quantised copies of weights. They follow from the masters, so a checkpoint does not carry them.
func (t *Trainer) copies() (all []device.Held) {
	for _, p := range t.weights.Params() {
		q := quant.Of(p)
		if q == nil {
			continue
		}
		each := func(of string, x quant.Packed) {
			add := func(what string, t *device.Tensor) {
				all = append(all, device.Held{Item: state.Item{Name: p.Name + of + what, Role: state.Copy, Of: p.Name, Place: p.Place}, Tensor: t})
			}
			add(".packed", x.Codes)
			add(".scales", x.Scales)
			if x.Global != nil {
				add(".global", x.Global)
			}
		}
		each(".fprop", q.Fprop)
		if q.Dgrad != q.Fprop {
			each(".dgrad", q.Dgrad)
		}
	}
	return all
}
