package inject

import (
	"slices"

	"firstbit/device"
	"firstbit/tune"
)

var lateKind = &kind{Name: "late", noun: "Call", phase: tune.StepPhases, Example: "late@layers.1.attn.wq.grad micro=0 rank=0",
	does: "a Call runs as late as the first that reads what it writes, or the step's metrics, allow: of what was written to its inputs meanwhile it reads parts, which the schedule chooses; no collectives and messages",
	make: func(*Selector) (action, []field) { return &late{}, nil }}

// late is a Call that is waited for, and whose inputs are not.
type late struct{ waiting []*delayed }

// delayed is a Call that is yet to run.
type delayed struct {
	call device.Call
	read []*device.Tensor // its inputs, as they were when it was called
	next device.Runner
}

// on leaves out what others wait for, and what the step ends with.
func (*late) on(c *device.Call) bool {
	return c.Kind != device.Module && c.Kind != device.State && c.Kind != device.Metric && c.Kind != device.Loading
}

func (x *late) fit(f *Fault, c *device.Call) {
	if c.Kind == device.Collective || c.Kind == device.P2P {
		f.fail(c, "is a collective or a message, which others wait for: alias with cluster.overlap=true shows buffers that are used again too early")
	}
}

func (x *late) watch(f *Fault, c *device.Call, selected bool, next device.Runner) {
	x.until(f, c)
	if !selected || f.err != nil {
		next(c)
		return
	}
	d := &delayed{call: *c, next: next}
	d.call.In, d.call.Out, d.call.Scalars = slices.Clone(c.In), slices.Clone(c.Out), slices.Clone(c.Scalars)
	for _, in := range c.In {
		d.read = append(d.read, same(in.Tensor))
	}
	x.waiting = append(x.waiting, d)
}

// until runs, in the order in which they were called, those that a Call needs, or that would write over what it writes.
func (x *late) until(f *Fault, c *device.Call) {
	for i := 0; i < len(x.waiting); i++ {
		d := x.waiting[i]
		if c.Kind != device.Metric && c.ID.Step == d.call.ID.Step && !meets(d.call.Out, c.In) && !meets(d.call.Out, c.Out) {
			continue
		}
		x.waiting = slices.Delete(x.waiting, i, i+1)
		i--
		d.run(f)
	}
}

func (d *delayed) run(f *Fault) {
	var read []*device.Tensor
	var before [][]bool
	for _, in := range d.call.In {
		rows, _ := rowsOf(in.Tensor)
		late := choose(&d.call, "late."+in.Name, rows)
		for r := range late {
			late[r] = !late[r]
		}
		read, before = append(read, in.Tensor), append(before, late)
	}
	mixed(f, &d.call, read, d.read, d.read, before, d.next)
}
