// Package device is the one door: a simulated accelerator that runs named Calls.
//
// Every operation of a training run, from a matrix product to a draw of random numbers, is a
// Call that passes Device.run: a chain of middleware around the kernel. Middleware may
// watch the Call (trace), choose its Plan (tune) or break it (inject); the model
// knows none of them.
package device

import (
	"maps"
	"slices"

	"firstbit/rng"
)

// Runner runs a Call.
type Runner func(*Call)

// Middleware wraps a Runner. Chains are in a fixed order: memory(trace(tune(inject(run)))).
type Middleware func(next Runner) Runner

// Device is a view of one rank's simulated accelerator at a module scope.
// Views of one rank share its place in the run; they are cheap to ask for again.
type Device struct {
	*rank
	scope string
	views []*Device
	calls [phases]map[string]*Call
	lanes []*Device
	columns
}

// columns is which of how many equal parts of its columns a rank has of what a scope computes.
type columns struct{ part, parts int }

type rank struct {
	at       Coord
	index    int
	schedule Schedule
	library  string
	run      Runner
	step     int
	micro    int
	phase    Phase
	err      error
	running  *Call // whose body runs
}

// Options are what a Device is made with.
type Options struct {
	Rank     int
	At       Coord
	Schedule Schedule
	Library  string // release of the kernel library, "sim-12.8" by default
}

// DefaultLibrary is the simulated release of the kernel library.
const DefaultLibrary = "sim-12.8"

// New makes a Device whose Calls pass the middleware, the first being outermost.
func New(o Options, middleware ...Middleware) *Device {
	run := Runner(execute)
	for i := len(middleware) - 1; i >= 0; i-- {
		run = middleware[i](run)
	}
	if o.Library == "" {
		o.Library = DefaultLibrary
	}
	return &Device{rank: &rank{at: o.At, index: o.Rank, schedule: o.Schedule, library: o.Library, run: run}}
}

// At says where in the run the Calls that follow are.
func (d *Device) At(step, micro int, phase Phase) { d.step, d.micro, d.phase = step, micro, phase }

// Where is what At was told last.
func (d *Device) Where() (step, micro int, phase Phase) { return d.step, d.micro, d.phase }

// Enter goes on in another phase of the same step and microbatch.
func (d *Device) Enter(phase Phase) { d.phase = phase }

// Phase is that of the Calls that follow.
func (d *Device) Phase() Phase { return d.phase }

// Coord is the rank's on the grid of parallel axes.
func (d *Device) Coord() Coord { return d.at }

// Running is the Call whose body runs, or whose body ended the run; nil: none.
func (d *Device) Running() *Call { return d.running }

// Rank is the number of the rank.
func (d *Device) Rank() int { return d.index }

// In returns the view of d one module scope further down.
func (d *Device) In(scope string) *Device {
	path := scope
	for _, v := range d.views {
		if len(v.scope) >= len(path) && v.scope[len(v.scope)-len(path):] == path &&
			len(v.scope) == len(d.scope)+len(path)+min(len(d.scope), 1) {
			return v
		}
	}
	v := &Device{rank: d.rank, scope: join(d.scope, scope)}
	d.views = append(d.views, v)
	return v
}

// Lane is a device of the same rank and names whose Calls have storage of their own, for microbatches that are under way at
// the same time. Lane 0 is the device itself.
func (d *Device) Lane(i int) *Device {
	if i == 0 {
		return d
	}
	for len(d.lanes) < i {
		d.lanes = append(d.lanes, &Device{rank: d.rank, scope: d.scope})
	}
	return d.lanes[i-1]
}

// CutColumns says that tensor parallelism cuts the columns of what the Calls of this view compute of all the rank's tokens: which part the
// rank has, of how many. Traces tell by it where in the whole an output lies.
func (d *Device) CutColumns(part, parts int) { d.columns = columns{part, parts} }

// Scope is the module path of the view.
func (d *Device) Scope() string { return d.scope }

// Open returns the Call of this scope, phase and label, ready for its inputs and outputs.
// A label may be used once in (step, microbatch, phase): names are identities.
func (d *Device) Open(label string, k *Kernel) *Call { return d.OpenKind(Op, label, k) }

// OpenKind is Open for Calls that are not arithmetic on tensors.
func (d *Device) OpenKind(kind Kind, label string, k *Kernel) *Call {
	c := d.calls[d.phase][label]
	if c == nil {
		c = d.make(kind, label, k)
	} else if c.Kernel != k {
		panic("device: " + c.from + " is a Call of the kernel " + c.Kernel.Name + ": it was opened with another, " + k.Name)
	}
	stamp := d.stamp()
	if c.stamp == stamp {
		panic("device: the path of this Call was used before in the same step, microbatch and phase: " + c.from)
	}
	c.stamp = stamp
	c.ID.Step, c.ID.Micro = d.step, d.micro
	c.In, c.Out, c.Scalars = c.In[:0], c.Out[:0], c.Scalars[:0]
	c.Plan = c.Kernel.Fixed
	c.Library = d.library
	c.Shards, c.Whole, c.Lands = 1, nil, nil
	return c
}

func (d *Device) make(kind Kind, label string, k *Kernel) *Call {
	path := join(d.scope, label)
	from := d.phase.String() + " " + path
	c := &Call{
		ID: ID{At: d.at, Phase: d.phase, Path: path}, Kind: kind,
		Scope: d.scope, Label: label, Kernel: k, Body: k.Run,
		site: site{dev: d, from: from, key: rng.HashString(from), stamp: -1},
	}
	if d.calls[d.phase] == nil {
		d.calls[d.phase] = map[string]*Call{}
	}
	d.calls[d.phase][label] = c
	return c
}

// Ran is the Call of a label if it ran in that phase of this microbatch, else nil.
func (d *Device) Ran(phase Phase, label string) *Call {
	c := d.calls[phase][label]
	if c == nil || c.stamp != d.stamp() {
		return nil
	}
	return c
}

// stamp is the microbatch at hand.
func (d *Device) stamp() int64 { return int64(d.step)<<20 | int64(d.micro) }

// Calls lists every Call of the view and those below it that was opened so far, lanes' too.
func (d *Device) Calls() []*Call {
	var all []*Call
	for _, labels := range d.calls {
		for _, label := range slices.Sorted(maps.Keys(labels)) {
			all = append(all, labels[label])
		}
	}
	for _, below := range slices.Concat(d.views, d.lanes) {
		all = append(all, below.Calls()...)
	}
	return all
}

// Do sends the Call through the door, with the arguments that its Kernel declares.
func (c *Call) Do() {
	if n := (counts{len(c.In), len(c.Scalars), len(c.Out)}); c.fresh || n != c.checked {
		c.check()
	}
	c.dev.run(c)
}

// execute is the innermost Runner: it runs the kernel, rounds what it wrote to
// the outputs' formats, and signs them with the Call's name.
func execute(c *Call) {
	if c.Body != nil {
		c.dev.running = c
		c.Launches++
		c.Body(c)
		c.dev.running = nil
	}
	if c.Kind == Module { // a boundary shows what its Calls wrote
		return
	}
	for i := range c.Out {
		t := c.Out[i].Tensor
		if t.f32 != nil && t.Format.Bits() > 8 { // quantisers write codes, which are of the format
			t.Format.RoundSlice(t.f32)
		}
		if c.Kind == State && t.From != "" { // a look at what another wrote
			continue
		}
		if len(c.Out) == 1 {
			t.From = c.from
		} else {
			t.From = c.producer(i)
		}
	}
}

// producer names output i of a Call with several.
func (c *Call) producer(i int) string {
	name := c.Out[i].Name
	t := c.Out[i].Tensor
	if n := len(c.from); len(t.From) == n+1+len(name) && t.From[:n] == c.from && t.From[n] == '#' && t.From[n+1:] == name {
		return t.From // the same site wrote it last time: nothing to allocate
	}
	return c.from + "#" + name
}
