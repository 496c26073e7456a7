package inject

import (
	"math"
	"slices"
	"strings"

	"firstbit/device"
	"firstbit/tune"
)

var dropKind = &kind{Name: "drop", noun: "Call", state: "state", phase: tune.StepPhases, Example: "drop@grads.bucket.0 step=2 rank=1",
	does: "a Call does not run: what it would have written is as it wrote it last, zero before; of a collective on some of its ranks their parts are zero, on all of them an all-reduce adds nothing up; " +
		"where a run continues, states keep what the run began with",
	make: func(*Selector) (action, []field) { return &drop{}, nil }}

// drop is a Call that does not run.
type drop struct {
	everyCall
	history
}

func (x *drop) follow(f *Fault, c *device.Call, now bool, next device.Runner) {
	switch {
	case !now:
		next(c)
		x.keep(c)
	case c.ID.Phase == device.Load:
		f.act(otherwise(c))
	case c.Kernel.Name == "send", c.Kind == device.Collective && !waits(c) && !f.everyMember(c):
		f.act(absent(c, next))
		x.keep(c)
	default:
		f.act(x.omit(c, next))
	}
}

// otherwise tells whether a Call of a restore that is omitted would have left other bits than there are.
func otherwise(c *device.Call) bool {
	if c.Kind != device.Loading || len(c.Out) != 1 { // the others take more with them than their output
		return true
	}
	if c.Body == nil {
		return false
	}
	t := c.Out[0].Tensor
	is := same(t)
	c.Body(c)
	return put(t, is)
}

// omit leaves all as if the Call had not run. It runs nevertheless, unwatched: who waits for it goes on, and what it would have changed is known.
func (h history) omit(c *device.Call, next device.Runner) (changed bool) {
	before, brought := outputs(c), (*device.Tensor)(nil)
	inPlace := c.Kind == device.Collective && !waits(c) && strings.HasPrefix(c.Kernel.Name, "all_reduce") // as public trainers reduce: what was there stays
	if inPlace && c.Whole == nil {
		brought = same(c.Input("x"))
	}
	probe := c.Probe
	c.Probe = nil
	next(c)
	c.Probe = probe
	if inPlace && c.Whole != nil { // into which the Call has collected its parts
		brought = c.Whole
	}
	for i, out := range c.Out { // which may be another tensor by now, if the Call only starts something
		old := brought
		if old == nil {
			old = h.last(c, i, before[i])
		}
		changed = put(out.Tensor, old) || changed
	}
	return changed
}

// absent has a rank take part in a collective, or send a message, with nothing: −0 in a sum, else 0. How much it sends to whom stays.
func absent(c *device.Call, next device.Runner) (changed bool) {
	zero := 0.0
	if c.Kernel.Name == "all_reduce" || c.Kernel.Name == "reduce_scatter" {
		zero = math.Copysign(0, -1)
	}
	nothing := func(t *device.Tensor) *device.Tensor {
		n := fill(device.NewTensor(t.Format, t.Shape()...), zero)
		changed = changed || !equal(n, t)
		return n
	}
	in, whole := slices.Clone(c.In), c.Whole
	for i := range c.In {
		if name := c.In[i].Name; name != "send" && name != "receive" {
			c.In[i].Tensor = nothing(c.In[i].Tensor)
		}
	}
	switch c.Kernel.Name {
	case "all_reduce", "reduce_scatter":
		if whole != nil {
			c.Whole = nothing(whole)
		}
	case "broadcast":
		if len(in) > 0 { // the root gives what lies where it writes
			fill(c.Output("x"), zero)
		}
	}
	next(c)
	copy(c.In, in)
	c.Whole = whole
	return changed
}
