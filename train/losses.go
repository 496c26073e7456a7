package train

import (
	"strconv"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/model"
	"firstbit/nn"
	"firstbit/parallel"
	"firstbit/reduce"
)

// losses are those of a step. Every microbatch has a vector: the language model's loss, that of each depth of
// multi-token prediction, and of each mixture-of-experts layer two. What other ranks compute is absent, −0.
type losses struct {
	kept  []*device.Tensor // by microbatch
	order []int            // the microbatches of the step, as they came
	parts []*device.Tensor // the elements of all
	all   *device.Tensor
	grad  *device.Tensor // of the step's loss; nil: it is one
}

// gradient is that with which the step's backwards begin.
func (l *losses) gradient() float64 {
	if l.grad == nil {
		return 1
	}
	return l.grad.Value(0)
}

var (
	keepKernel  = &device.Kernel{Name: "keep", In: device.Names("loss... losses?"), Out: device.Names("losses")}
	valueKernel = &device.Kernel{Name: "value", In: device.Names("value")}
	// meetLosses joins the losses of microbatches as their gradients are joined.
	meetLosses = &device.Kernel{Name: "losses", In: device.Names("losses..."), Out: device.Names("losses"),
		Fixed: reduce.MustPlan("micro:seq/fp32"), Canonical: reduce.MustPlan("micro:pairwise/fp32"),
		Run: device.Width(runMeetLosses[float32], runMeetLosses[float64])}
)

// slots is the number of losses of a microbatch, and where those of the experts begin.
func (t *Trainer) slots() (n, aux, z int) {
	layers, depths := t.weights.Routed()
	return 1 + depths + 2*layers, 1 + depths, 1 + depths + layers
}

// keep collects what piece i knows of a microbatch's losses: the next microbatch writes their tensors again. The rank's first piece begins
// with a vector in which all are absent, the others add to what those before them knew.
func (t *Trainer) keep(dev *device.Device, m *model.Model, i, micro int, l model.Losses) {
	for len(t.losses.kept) <= micro {
		t.losses.kept = append(t.losses.kept, t.absent())
	}
	c := dev.Open(lossLabels.At(m.Index), keepKernel)
	if l.LM != nil {
		c.Read("loss", l.LM)
	}
	for _, x := range l.MTP {
		c.Read("loss", x)
	}
	for i := range l.Aux {
		c.Read("loss", l.Aux[i])
		c.Read("loss", l.Z[i])
	}
	if i > 0 {
		c.Read("losses", t.losses.kept[micro])
	}
	c.Update("losses", t.losses.kept[micro])
	if c.Body == nil {
		at := t.slotsOf(l)
		c.Body = func(c *device.Call) {
			if i == 0 {
				clearLosses(c.Output("losses"))
			}
			for i, slot := range at {
				c.Output("losses").CopyAt(slot, c.Inputs("loss")[i].Tensor)
			}
		}
	}
	c.Do()
}

// slotsOf are the slots of a piece's losses, in the order in which it has them: the same in every microbatch.
func (t *Trainer) slotsOf(l model.Losses) (at []int) {
	_, aux, z := t.slots()
	if l.LM != nil {
		at = append(at, 0)
	}
	for k := range l.MTP {
		at = append(at, 1+k)
	}
	for i := range l.Aux {
		at = append(at, aux+l.Experts+i, z+l.Experts+i)
	}
	return at
}

// absent is a vector of losses that nobody has written.
func (t *Trainer) absent() *device.Tensor {
	n, _, _ := t.slots()
	x := device.NewTensor(nn.MasterFormat(t.weights.Format()), n)
	clearLosses(x)
	return x
}

// clearLosses makes all losses absent.
func clearLosses(x *device.Tensor) {
	for i := range x.Len() {
		x.Set(i, kernel.Negzero[float64]())
	}
}

// sum makes each loss that of all microbatches and ranks, before layers and depths meet and weights enter: as with
// gradients, what is added over ranks is added by itself. Ranks that share a microbatch have the same.
func (t *Trainer) sumLosses(dev *device.Device) []*device.Tensor {
	n, _, _ := t.slots()
	var all *device.Tensor
	if dp, kept := t.rank.DP(), t.losses.order; t.canonical && dp.Size() > 1 && parallel.MostSubtrees(dp.Size(), len(kept)) > 1 {
		all = t.sumSubtrees(dev, dp, n)
	} else {
		all = dp.AllReduce(dev, "losses.sum", t.joinLosses(dev, "losses", kept))
	}
	all = t.rank.PP().AllReduce(dev, "losses.stages", all) // every other stage's are absent
	if all != t.losses.all {
		t.losses.all, t.losses.parts = all, nil
		for i := range n {
			t.losses.parts = append(t.losses.parts, all.View(i, i+1))
		}
	}
	for _, p := range t.losses.parts {
		p.From = all.From
	}
	return t.losses.parts
}

// joinLosses are the losses of some microbatches.
func (t *Trainer) joinLosses(dev *device.Device, label string, of []int) *device.Tensor {
	c := dev.Open(label, meetLosses)
	for _, micro := range of {
		c.Read("losses", t.losses.kept[micro])
	}
	all := c.Write("losses", t.losses.kept[of[0]].Format, t.losses.kept[of[0]].Len())
	c.Do()
	return all
}

// sumSubtrees adds losses over data ranks whose microbatches are no subtree of the step's: each brings those of the largest that they have.
func (t *Trainer) sumSubtrees(dev *device.Device, dp parallel.Member, n int) *device.Tensor {
	micros := len(t.losses.order)
	most := parallel.MostSubtrees(dp.Size(), micros)
	all := device.NewBuffer(t.losses.kept[0].Format, most*n)
	all.Subtrees, all.Micros = most, micros
	subtrees := reduce.Subtrees(dp.Index*micros, (dp.Index+1)*micros)
	var sum *device.Tensor
	for i := range most {
		name := "losses"
		if i > 0 {
			name += ".subtree" + strconv.Itoa(i)
		}
		if i < len(subtrees) {
			lo := subtrees[i].Lo - dp.Index*micros
			sum = t.joinLosses(dev, name, t.losses.order[lo:lo+subtrees[i].N])
		}
		all.Hold(i*n, name, sum)
	}
	return dp.AllReduceParts(dev, "losses.sum", all)
}

func runMeetLosses[T libm.Float](c *device.Call) {
	sums, micro := device.Out[T](c, "losses"), c.Inputs("losses")
	f := c.Fold("micro", len(micro))
	for i := range sums {
		sums[i] = kernel.Run(f, func(m int) T { return device.Data[T](micro[m].Tensor)[i] })
	}
}

// MetricNames lists what a step reports, in its order.
func (c Config) MetricNames() []string {
	names := []string{"loss", "lm_loss"}
	layers, depths := c.Model.Routed()
	if layers > 0 {
		names = append(names, "load_balancing_loss", "z_loss")
	}
	if depths > 0 {
		names = append(names, "mtp_loss")
	}
	names = append(names, "grad_norm")
	if c.Precision == scaledPrecision {
		names = append(names, "loss_scale", "found_inf")
	}
	return names
}

// metrics makes the step's numbers and shows each as a metric record: the loss, its parts as they
// enter it, the norm of the gradients, and of a scaled loss the scale that the step had and whether a gradient overflowed.
func (t *Trainer) metrics(norm *device.Tensor) Result {
	dev, f := t.dev.In("metrics"), norm.Format
	all := t.sumLosses(dev)
	_, aux, z := t.slots()
	tokens, micros := t.scales()
	var names []string
	var parts []*device.Tensor
	add := func(name string, of []*device.Tensor, scale float64) {
		if len(of) > 0 {
			names, parts = append(names, name), append(parts, model.Reduce(dev, name, of, scale, t.labels.all, f))
		}
	}
	add("lm_loss", all[:1], tokens)
	add("load_balancing_loss", all[aux:z], micros)
	add("z_loss", all[z:], micros)
	var depths []*device.Tensor
	for k, of := range all[1:aux] {
		depths = append(depths, model.Reduce(dev, "mtp_loss."+strconv.Itoa(k), []*device.Tensor{of}, t.weights.MTPScale(k, t.Seq, tokens), t.labels.all, f))
	}
	if len(depths) > 0 { // each is divided already
		names, parts = append(names, "mtp_loss"), append(parts, model.Reduce(dev, "mtp_loss", depths, 1, nil, f))
	}
	r := Result{Step: t.step, Metrics: []Metric{t.metric("loss", model.Reduce(dev, "loss", parts, 1, nil, f))}}
	for i, p := range parts {
		r.Metrics = append(r.Metrics, t.metric(names[i], p))
	}
	r.Metrics = append(r.Metrics, t.metric("grad_norm", norm))
	if s := t.Optim.Scale; s != nil {
		r.Metrics = append(r.Metrics, t.metric("loss_scale", t.losses.grad), t.metric("found_inf", s.Found))
	}
	if t.Digest {
		r.State = t.stateDigest()
	}
	return r
}

func (t *Trainer) metric(name string, x *device.Tensor) Metric {
	c := t.dev.OpenKind(device.Metric, name, valueKernel)
	c.Read("value", x)
	c.Do()
	return Metric{Name: name, Value: x.Value(0), Bits: x.Bits(0)}
}
