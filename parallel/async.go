package parallel

import (
	"firstbit/device"
	"firstbit/reduce"
)

// Pending is a collective that was started and is not waited for yet. Until then its destination is not to be read: parts of what
// is to come are there, which ones the Schedule says, and the rest is what it held before.
//
// Members meet where they start it, so that what is there early depends on no machine's timing; time is simulated, and none is lost.
type Pending struct {
	dev     *device.Device
	label   string
	call    *device.Call // that started it; nil: there is nothing to wait for
	in      []device.Arg
	scalars []device.Scalar
	plan    reduce.Plan
	y       *device.Tensor // the destination
	result  *device.Tensor
	ends    []int  // rows at which the parts end
	there   []bool // by part
}

// StartReduceScatter is ReduceScatter, to be waited for. x must stay as it is until then.
func (m Member) StartReduceScatter(dev *device.Device, label string, x *device.Buffer) *Pending {
	if m.Size() == 1 {
		x.Collect()
		return &Pending{y: x.Whole}
	}
	return m.startParts(dev, label, m.reduceScatter(dev, label, x))
}

// StartAllReduceParts is AllReduceParts, to be waited for. x must stay as it is until then.
func (m Member) StartAllReduceParts(dev *device.Device, label string, x *device.Buffer) *Pending {
	if m.Size() == 1 {
		x.Collect()
		return &Pending{y: x.Whole}
	}
	return m.startParts(dev, label, m.allReduceParts(dev, label, x))
}

// startParts runs a Call whose sums come in as many parts as there are members.
func (m Member) startParts(dev *device.Device, label string, c *device.Call) *Pending {
	ends := make([]int, m.Size())
	for i := range ends {
		_, ends[i] = Shard(c.Output("y").Len(), m.Size(), i)
	}
	return start(dev, label, c, ends)
}

// StartAllToAll is AllToAll, to be waited for. x must stay as it is until then.
func (m Member) StartAllToAll(dev *device.Device, label string, x, send, receive *device.Tensor) *Pending {
	if m.Size() == 1 {
		return &Pending{y: x}
	}
	c := m.allToAll(dev, label, x, send, receive)
	ends, at := make([]int, m.Size()), 0
	for i, n := range receive.I32() {
		at += int(n)
		ends[i] = at
	}
	return start(dev, label, c, ends)
}

// start runs a Call whose result goes to the destination part by part.
func start(dev *device.Device, label string, c *device.Call, ends []int) *Pending {
	y := c.Output("y")
	p := &Pending{dev: dev, label: label, call: c, y: y, result: device.NewTensor(y.Format, y.Shape()...), ends: ends, there: make([]bool, len(ends)),
		in: append([]device.Arg{}, c.In...), scalars: append([]device.Scalar{}, c.Scalars...)}
	c.Flags |= device.AsyncPending
	meet := c.Body
	var early []int
	c.Body = func(c *device.Call) {
		c.Lands = y
		device.Swap(c.Out, "y", p.result) // whatever befalls what the Call writes befalls the result
		meet(c)
		p.plan = c.Plan
		order := c.Arrival("parts", len(ends))
		early = order[:c.Arrival("there", len(ends)+1)[0]]
	}
	c.Do()
	y.From = p.result.From
	for _, i := range early {
		p.bring(i)
	}
	return p
}

// bring copies a part of the result to the destination.
func (p *Pending) bring(part int) {
	lo, w := 0, width(p.y)
	if part > 0 {
		lo = p.ends[part-1]
	}
	move(p.y, lo*w, p.result, lo*w, (p.ends[part]-lo)*w)
	p.there[part] = true
}

// Wait brings what is not there yet, and returns the destination. It reads what the start read, so that it can be judged like a collective
// that never was pending; the result; and the destination with all parts in it, which is the result unless it was overwritten meanwhile: what
// was there already is not brought again.
func (p *Pending) Wait() *device.Tensor {
	if p.call == nil {
		return p.y
	}
	for i, there := range p.there {
		if !there {
			p.bring(i)
		}
	}
	c := p.dev.OpenKind(device.Collective, p.label+".wait", p.call.Kernel)
	c.Group = p.call.Group
	for _, x := range p.in {
		c.Read(x.Name, x.Tensor)
	}
	for _, s := range p.scalars {
		c.ReadScalar(s.Name, s.Value)
	}
	c.Read("result", p.result)
	c.Read("y", p.y)
	c.Update("y", p.y)
	c.Body = func(c *device.Call) { c.Plan = p.plan }
	c.Do()
	return p.y
}
