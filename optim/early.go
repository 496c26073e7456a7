package optim

import (
	"firstbit/device"
	"firstbit/nn"
	"firstbit/parallel"
)

// early sends a bucket's gradients as soon as the last of them is there, while others are still computed, and waits for
// the sums in the optimizer.
//
// It moves Calls to another time and no bit: their names and what they read stay. The order in which sums are waited for, a choice, is
// that in which the squares of buckets meet.
type early struct {
	*AdamW
	dev     *device.Device
	of      map[*nn.Param]*Bucket
	due     map[*nn.Param]int // how often a parameter's gradient is added to in a step, as the first step had it; nil: before that
	added   map[*nn.Param]int // in this step
	missing map[*Bucket]int   // parameters whose gradients are not all there
	sent    map[*Bucket]*parallel.Pending
	order   []*Bucket // as they completed in the last step
}

// Early sends gradients early from the second step on; the first has to show how often they are added to. A rank alone sends none, and where
// uses are kept apart until the step ends there is nothing to send before.
func (a *AdamW) Early(dev *device.Device) {
	if a.Canonical || a.alone() {
		return
	}
	e := &early{AdamW: a, dev: dev.In("grads"), of: map[*nn.Param]*Bucket{}, missing: map[*Bucket]int{}, sent: map[*Bucket]*parallel.Pending{}}
	e.added = map[*nn.Param]int{}
	for _, b := range a.Buckets {
		e.missing[b] = len(b.Params)
		for _, p := range b.Params {
			e.of[p] = b
			p.Added = func() { e.hear(p) }
		}
	}
	a.early = e
}

// hear notes that a gradient was added to.
func (e *early) hear(p *nn.Param) {
	e.added[p]++
	b := e.of[p]
	switch {
	case e.due == nil || e.added[p] < e.due[p]:
		return
	case e.added[p] > e.due[p]:
		panic("optim: " + p.Name + ": its gradient was added to after it was sent")
	}
	if e.missing[b]--; e.missing[b] == 0 {
		step, micro, phase := e.dev.Where()
		e.dev.At(step, 0, device.Opt) // its name does not tell when it ran
		e.send(b)
		e.dev.At(step, micro, phase)
	}
}

func (e *early) send(b *Bucket) {
	e.sent[b] = b.group.StartReduceScatter(e.dev, b.label, b.grads)
}

var completion = parallel.NewCompletion("buckets", "buckets", true)

// finish sends what was not, and waits for all.
func (e *early) finish(dev *device.Device) {
	for _, b := range e.Buckets {
		if e.sent[b] == nil {
			e.send(b)
		}
	}
	if e.due == nil {
		e.due = e.added
	}
	e.added, e.order = map[*nn.Param]int{}, e.order[:0]
	if len(e.Buckets) == 0 {
		return
	}
	for _, i := range completion.Of(dev, "completion", len(e.Buckets), nil) {
		b := e.Buckets[i]
		b.land(e.sent[b].Wait())
		e.sent[b], e.missing[b] = nil, len(b.Params)
		e.order = append(e.order, b)
	}
}

// completed are the buckets in the order in which their sums were there.
func (a *AdamW) completed() []*Bucket {
	if a.early == nil {
		return a.Buckets
	}
	return a.early.order
}
