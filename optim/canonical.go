package optim

import (
	"strconv"

	"firstbit/device"
	"firstbit/nn"
	"firstbit/parallel"
)

// Under the canonical recipe the bits of an update do not depend on the layout:
//
//   - every use of a parameter has a gradient of its own, added over the ranks before the uses meet in call
//     order, since (a₀+b₀)+(a₁+b₁) is not (a₀+a₁)+(b₀+b₁);
//   - what the ranks that share a microbatch have of its gradient was added before microbatches met: parallel.Shares;
//   - the sum of the squares is exact.

func uses(p *nn.Param) []*nn.Use { return p.Accumulator.(*nn.ByUse).Uses }

// use is the gradients of one use of a bucket's parameters.
type use struct {
	label  string
	totals []*device.Tensor // of a rank alone, by parameter, over the microbatches; nil: it has no such use
	grads  *device.Buffer   // what others have a part of, together, as it travels
}

// collect joins what a rank has of the gradients of a use, and lays them where their parameters lie. What is summed in the gaps is never read.
func (a *AdamW) collect(dev *device.Device, b *Bucket, n int) (label string, grads *device.Buffer) {
	if n == len(b.uses) {
		u := &use{label: b.label}
		if n > 0 {
			u.label += ".use" + strconv.Itoa(n)
		}
		b.uses = append(b.uses, u)
	}
	u := b.uses[n]
	if b.group.Size() > 1 {
		return u.label, a.subtrees(dev, b, u, n)
	}
	u.totals = u.totals[:0]
	for _, p := range b.Params {
		var total *device.Tensor
		if n < len(uses(p)) {
			total = nn.Total(dev, u.label+"."+p.Name, uses(p)[n])
		}
		u.totals = append(u.totals, total)
	}
	return u.label, nil
}

// subtrees lays what the rank has of a use together: one sum, or, where its microbatches are no subtree, those of the largest that they have. A rank
// that has fewer than another fills up with its last, which nobody reads.
func (a *AdamW) subtrees(dev *device.Device, b *Bucket, u *use, n int) *device.Buffer {
	micros := b.Params[0].Accumulator.(*nn.ByUse).Micros * a.shares(b.Params[0]).Sources
	most := parallel.MostSubtrees(b.group.Size(), micros)
	if u.grads == nil || u.grads.Whole.Len() != most*b.n {
		u.grads = device.NewBuffer(b.Params[0].Grad.Format, most*b.n)
	}
	u.grads.Clear()
	if u.grads.Subtrees, u.grads.Micros = most, 0; most > 1 {
		u.grads.Micros = micros
	}
	at := 0
	for _, p := range b.Params {
		if n < len(uses(p)) {
			subtrees := nn.Subtrees(dev, u.label+"."+p.Name, uses(p)[n])
			if len(subtrees) > most {
				panic("optim: a use has other microbatches than its share of the step")
			}
			for i := range most {
				name := p.Name
				if i > 0 {
					name += ".subtree" + strconv.Itoa(i)
				}
				u.grads.Hold(i*b.n+at, name, subtrees[min(i, len(subtrees)-1)])
			}
		}
		at += p.Grad.Len()
	}
	return u.grads
}

// landUse adds the sum of a use, of this rank's shard, to those of the uses before. nil: nobody else has a part of it, so the segments are the
// parameters, and every total is its own sum.
func (b *Bucket) landUse(dev *device.Device, n int, sum *device.Tensor) {
	u := b.uses[n]
	for i, s := range b.Segments {
		if n >= len(uses(s.Param)) {
			continue
		}
		before := s.gradient()
		if s.sum, s.from = sum, s.at; sum == nil {
			s.sum = u.totals[i]
		}
		if n > 0 {
			s.sum = nn.Sum(dev, u.label+"."+s.Param.Name+".sum", before, s.gradient())
		}
	}
}
