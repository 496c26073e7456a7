package train

import (
	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/state"
)

// Places tells where arguments of Calls lie in the whole that all ranks and microbatches of a step have.
//
// The whole of an activation or of its gradient is (samples of the step, T, …): a microbatch has some of the samples, cp cuts T, and tp
// cuts either the rows of what is left, one run after another, or the columns, where the scope says so. The whole of a weight's gradient
// is the weight. A sum of which other ranks add parts has no place, nor have rows that are sorted by expert.
type Places struct {
	t       *Trainer
	weights map[*state.Place]*nn.Param
	read    map[*device.Tensor]*nn.Param // by what kernels read
}

// Places is that of the trainer's Calls.
func (t *Trainer) Places() *Places {
	p := &Places{t, map[*state.Place]*nn.Param{}, map[*device.Tensor]*nn.Param{}}
	for _, w := range t.weights.Params() {
		p.weights[&w.Place], p.read[w.W] = w, w
	}
	return p
}

// Of is the place of an input or output of a Call; nil: it has none.
func (p *Places) Of(c *device.Call, a device.Arg, output bool) *state.Place {
	switch phase := c.ID.Phase; {
	case c.State != nil:
		if c.State.Place.Stream != "" || !output || c.State.Role == state.Copy {
			return nil
		}
		return &c.State.Place
	case c.Kind == device.Optim && c.Weight != nil:
		if a.Name == "norm" {
			return nil
		}
		return c.Weight
	case c.Weight != nil:
		if output || a.Name != "dw" || !p.sumsMicrobatch(p.weights[c.Weight]) {
			return nil
		}
		return c.Weight
	case phase != device.Fwd && phase != device.Rec && phase != device.Bwd:
		return nil
	case output && c.Kernel.ByToken && c.Shards <= 1:
		return p.byToken(c, a)
	case !output && p.read[a.Tensor] != nil:
		return &p.read[a.Tensor].Place
	}
	return nil
}

// sumsMicrobatch tells whether a gradient that a rank accumulates is summed over all tokens of its microbatch.
func (p *Places) sumsMicrobatch(w *nn.Param) bool {
	l := p.t.rank.Layout()
	switch {
	case w == nil:
		return false
	case w.Expert:
		return l.EP*l.ETP == 1 && (w.Join != nil || l.TP*l.CP == 1)
	case w.Join != nil:
		return true
	case w.Sequence:
		return l.TP*l.CP == 1
	}
	return l.CP == 1
}

// byToken is the place of what has a row for each token, or an entry for each sequence.
func (p *Places) byToken(c *device.Call, a device.Arg) *state.Place {
	t, l, at, shape := p.t, p.t.rank.Layout(), p.t.dev.Coord(), a.Shape()
	samples, n := t.Batch*t.Microbatches(), shape[0]
	cuts := []state.Cut{{Dim: 0, Part: at.DP*t.window + c.ID.Micro, Parts: t.Microbatches()}}
	columns := state.Cut{Dim: 2}
	columns.Part, columns.Parts = c.Columns()
	read := n // rows
	if c.Kind == device.Collective {
		if columns.Parts == 0 {
			return nil
		}
		read = c.In[0].Shape()[0]
	}
	all := t.Batch * t.Seq // rows of the microbatch
	own := all / l.CP      // those that the ranks of tp share
	steps, lo := state.Cut{Dim: 1, Part: at.CP, Parts: l.CP}, 0
	whole := append([]int{samples, t.Seq}, shape[1:]...)
	switch {
	case a.Len() == 1 && own == l.TP: // it might be one of a token
		return nil
	case a.Len() == 1: // a sum over the tokens of the microbatch
		whole, columns.Parts, steps.Parts = []int{t.Microbatches()}, 1, 1
	case len(shape) > 2 && n == t.Batch && l.CP == 1:
		whole, columns.Dim = append([]int{samples}, shape[1:]...), 1
	case len(shape) > 2, len(shape) == 1 && a.Format == lowp.INT32: // the latter is the state of a stream
		return nil
	case n > read && n == own && read*l.TP == own: // gathered over tp, with all columns
		columns.Parts = 1
	case n > read && n == all && read == own: // gathered over cp
		steps.Parts = 1
	case n > read:
		return nil
	case n == own:
	case n*l.TP == own:
		columns.Parts, lo = 1, at.TP*a.Len()
	default:
		return nil
	}
	if len(shape) == 1 {
		columns.Parts = 1
	}
	if steps.Parts > 1 {
		cuts = append(cuts, steps)
	}
	if columns.Parts > 1 {
		whole[columns.Dim] *= columns.Parts
		cuts = append(cuts, columns)
	}
	return &state.Place{Whole: whole, Cuts: cuts, Lo: lo}
}
