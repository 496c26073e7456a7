package inject

import (
	"firstbit/device"
	"firstbit/tune"
)

var repeatKind = &kind{Name: "repeat", noun: "Call", phase: tune.StepPhases, Example: "repeat@layers.*.moe.router.tokens n=1 step=2",
	does: "a Call runs N more times: what it updates it updates again, and other numbers add up in the output, as where a tuner times kernels on it",
	make: func(*Selector) (action, []field) {
		x := &repeat{n: 1}
		return x, []field{number("n", "N", &x.n, 1, 1000)}
	}}

// repeat is a Call that runs again.
type repeat struct {
	everyCall
	n int
}

// fit refuses what others would have to repeat too.
func (x *repeat) fit(f *Fault, c *device.Call) {
	switch {
	case c.Kind == device.P2P:
		f.fail(c, "a message is sent once, and received once")
	case c.Kind == device.Collective && !waits(c) && !f.everyMember(c):
		f.fail(c, "a collective runs again on all of its ranks: no rank or coordinate may be given that only some of group %s have", c.Group)
	}
}

func (x *repeat) run(f *Fault, c *device.Call, next device.Runner) {
	next(c)
	if f.err != nil {
		return
	}
	once := outputs(c)
	for range x.n {
		before := outputs(c)
		next(c)
		for i, out := range c.Out {
			if out.Format.Float() {
				add(c, out.Tensor, before[i])
			}
		}
	}
	changed := false
	for i, out := range c.Out {
		changed = changed || !equal(out.Tensor, once[i])
	}
	f.act(changed)
}

// add adds what was there to what a Call has written, but not to what it updates: that lies in an input.
func add(c *device.Call, t, before *device.Tensor) {
	is := same(t)
	for i := range t.Len() {
		t.Set(i, before.Value(i)+t.Value(i))
	}
	each(t, c.In, func(at, n int) { move(t, is, at, n) })
}
