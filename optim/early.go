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
	micros  int               // of the step at hand
	added   map[*nn.Param]int // how often a gradient was added to in this step
	missing map[*Bucket]int   // parameters whose gradients are not all there
	sent    map[*Bucket][]*parallel.Pending
	order   []*Bucket // as they completed in the last step
}

// Early sends gradients early. How often each is added to is known before the first step: as often as its weight is used (nn.Param.Used), in every
// microbatch. A rank alone sends none.
func (a *AdamW) Early(dev *device.Device) {
	if a.alone() {
		return
	}
	e := &early{AdamW: a, dev: dev.In("grads"), of: map[*nn.Param]*Bucket{}, added: map[*nn.Param]int{}, missing: map[*Bucket]int{},
		sent: map[*Bucket][]*parallel.Pending{}}
	for _, b := range a.Buckets {
		for _, p := range b.Params {
			e.of[p] = b
			p.Added = func() { e.hear(p) }
		}
	}
	a.early = e
}

// Begin says how many microbatches the step has whose gradients follow.
func (a *AdamW) Begin(micros int) {
	e := a.early
	if e == nil {
		return
	}
	e.micros = micros
	clear(e.added)
	for _, b := range a.Buckets {
		e.missing[b] = len(b.Params)
	}
}

// hear notes that a gradient was added to.
func (e *early) hear(p *nn.Param) {
	e.added[p]++
	b, due := e.of[p], p.Used*e.micros
	switch {
	case e.added[p] < due:
		return
	case e.added[p] > due:
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
	for use := range e.sends(b) {
		var p *parallel.Pending
		label, grads := e.parcel(e.dev, b, use)
		switch {
		case grads == nil:
		case e.Replicated:
			p = b.group.StartAllReduceParts(e.dev, label, grads)
		default:
			p = b.group.StartReduceScatter(e.dev, label, grads)
		}
		e.sent[b] = append(e.sent[b], p)
	}
}

var completion = parallel.NewCompletion("buckets", "buckets", true)

// finish waits for all.
func (e *early) finish(dev *device.Device) {
	e.order = e.order[:0]
	if len(e.Buckets) == 0 {
		return
	}
	for _, i := range completion.Of(dev, "completion", len(e.Buckets), nil) {
		b := e.Buckets[i]
		if e.missing[b] > 0 {
			panic("optim: " + b.label + ": not all of its gradients were added to as often as their weights are used")
		}
		for use, p := range e.sent[b] {
			var sum *device.Tensor
			if p != nil {
				sum = p.Wait()
			}
			e.land(dev, b, use, sum)
		}
		e.sent[b] = e.sent[b][:0]
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
