package trace

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"sync"

	"firstbit/device"
	"firstbit/files"
	"firstbit/state"
)

// Options say what a Tracer records and where.
type Options struct {
	Dir   string
	Level Level
	Ranks Set
	Steps Set
	Inner string // GLOB on scope.name: level kernel looks inside these Calls; empty: all
	Dump  string // GLOB on scope.name: keep the bytes of these Calls' tensors
	Parts bool   // beside the digests of what has a place in the whole, those that add up over its pieces
	Into  *Trace // what Open would read of the folder, once the trace is complete, and no folder is written; nil: one is
}

// Tracer is the middleware of one rank.
type Tracer struct {
	Options
	*book

	// Place is where an input or output of a Call lies in the whole; nil: it has no place. It is asked where Parts are recorded.
	Place func(c *device.Call, a device.Arg, output bool) *state.Place

	// Lens distorts what is seen; nil: nothing does.
	Lens Lens

	rank   int
	active bool

	iteration int      // of the open file; before the first, −1
	ended     bool     // that file
	file      *os.File // nil: none is open
	w         *bufio.Writer
	out       *File
	held      Held     // what has been ended
	wrote     []string // files and folders, in the directory
	seq       int
	kept      []Record // of a trace without a folder
	dumped    bool
	err       error
	sign      signer
	memory    memory
	partials  []device.Partial
	probe     func(device.Partial)
}

// book is what the Tracers of one run share.
type book struct {
	run     Run
	folder  *files.Folder
	mu      sync.Mutex
	tracers []*Tracer
}

// New makes the trace's directory with its run.json and a Tracer for one rank.
// The directory must be new or empty, and is nobody else's until the trace ends, so that two runs never mix.
func New(o Options, rank int, run Run) (*Tracer, error) {
	if o.Into != nil {
		return (&book{run: run}).join(o, rank), nil
	}
	folder, err := files.ClaimEmpty(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", o.Dir, err)
	}
	b := &book{run: run, folder: folder}
	t := b.join(o, rank)
	world, err := run.world()
	if err == nil {
		b.run.Holds = o.asked(world)
		err = b.run.write(o.Dir)
	}
	if err != nil {
		t.Abandon(0)
		return nil, err
	}
	return t, nil
}

// Join makes the Tracer of a further rank.
func (t *Tracer) Join(rank int) *Tracer { return t.join(t.Options, rank) }

func (b *book) join(o Options, rank int) *Tracer {
	t := &Tracer{Options: o, book: b, rank: rank, active: o.Level > Off && o.Ranks.Has(rank), iteration: -1, held: Held{Rank: rank}}
	t.probe = func(p device.Partial) { // the kernel reuses its slices
		p.F32 = append([]float32(nil), p.F32...)
		p.F64 = append([]float64(nil), p.F64...)
		t.partials = append(t.partials, p)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tracers = append(b.tracers, t)
	return t
}

// WantsState tells whether the window starts at this step: every state is shown there.
func (t *Tracer) WantsState(step int) bool {
	return t.active && t.Level >= Semantic && step == max(t.Steps.First(), 1)
}

// ReadsState tells whether the window starts or ends at this step of a run until the last: the fingerprint of all state shows what it read.
func (t *Tracer) ReadsState(step, last int) bool {
	return t.WantsState(step) || t.active && t.Level >= Semantic && step == min(t.Steps.Last(), last)
}

// Middleware records the Calls of the window.
func (t *Tracer) Middleware(next device.Runner) device.Runner {
	return func(c *device.Call) {
		if !t.Wants(c) {
			next(c)
			return
		}
		t.watch(c, next)
	}
}

// Wants tells whether a Call is in the window. A trace goes forward, each step once: of a run that a fault of its restore sends back it has what
// comes after the step of the restore.
func (t *Tracer) Wants(c *device.Call) bool {
	again := c.ID.Step < t.iteration || c.ID.Step == t.iteration && t.ended
	return t.active && kindLevel[c.Kind] <= t.Level && t.Steps.Has(c.ID.Step) && !again
}

var kindLevel = func() (l [16]Level) {
	for k := device.Op; k <= device.Inner; k++ {
		l[k] = LevelOf(k.String())
	}
	return l
}()

// watch signs the inputs as they are read, runs the Call, signs what it wrote.
func (t *Tracer) watch(c *device.Call, next device.Runner) {
	t.sight(c, false)
	r := t.record(c)
	t.memory.enter(c.ID.Step)
	for _, a := range c.In {
		g := t.sign.tensor(a)
		if a.From != "" {
			from := a.From
			g.From = &from
			if t.Level >= Op {
				g.Over = t.memory.over(a.Tensor)
			}
		}
		t.place(c, a, &g, false)
		r.In = append(r.In, g)
	}
	for _, s := range c.Scalars {
		r.In = append(r.In, t.sign.scalar(s))
	}
	deep := t.Level >= Kernel && c.Kind == device.Op && (t.Inner == "" || c.Matches(t.Inner))
	if deep {
		t.partials, c.Arrivals, c.Probe = t.partials[:0], nil, t.probe
	}
	c.Launches = 0
	next(c)
	c.Probe = nil
	if c.Launches > 1 {
		r.Launches = c.Launches
	}
	t.noteWrites(c, &r)
	sight := t.sight(c, true)
	outs := sight.Outs
	if outs == nil && c.Flags&device.AsyncPending == 0 { // else nothing is to be read yet
		outs = c.Out
	}
	for _, a := range outs {
		g := t.sign.tensor(a)
		t.place(c, a, &g, true)
		r.Out = append(r.Out, g)
	}
	r.Plan, r.Library = c.Plan.String(), c.Library // after tuning and faults
	t.dump(c, &r)
	if c.Kind == device.Metric && len(c.In) == 1 {
		t.value(&r, c.In[0].Tensor)
	}
	if deep {
		t.inner(c, r)
	}
	if !sight.None {
		t.write(r)
	}
}

// noteWrites keeps where a Call wrote. Of its inputs it says which lay there: they changed while it read them. What is gathered may lie in its place already.
func (t *Tracer) noteWrites(c *device.Call, r *Record) {
	if t.Level < Op || c.Kind == device.Module {
		return
	}
	for _, out := range c.Out {
		for i, in := range c.In {
			if c.Whole == nil && in.Tensor != out.Tensor && r.In[i].Over == "" && shares(in.Tensor, out.Tensor) {
				r.In[i].Over = out.From
			}
		}
		t.memory.write(out.Tensor, out.From)
		if c.Lands != nil {
			t.memory.write(c.Lands, out.From)
		}
	}
}

func (t *Tracer) record(c *device.Call) Record {
	r := Record{SchemaVersion: SchemaVersion, Rank: t.rank, Coord: c.ID.At, Iteration: c.ID.Step, Microbatch: c.ID.Micro,
		Phase: c.ID.Phase.String(), Kind: c.Kind.String(), Name: c.Label, Scope: c.Scope, Group: c.Group,
		View: c.View, Flags: flagNames(c.Flags), In: []Sig{}, Out: []Sig{}}
	if c.Peer != "" {
		peer := c.Peer
		r.Peer = &peer
	}
	if s := c.State; s != nil {
		r.Role, r.Of, r.Place = s.Role, s.Of, &s.Place
	}
	if c.Kind == device.Collective || c.Kind == device.P2P {
		r.Kernel = c.Kernel.Name
	}
	return r
}

func flagNames(f device.Flags) []string {
	names := []string{}
	for i, n := range []string{"uninit", "async-pending", "nonblocking"} {
		if f&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return names
}

func (t *Tracer) value(r *Record, x *device.Tensor) {
	v := x.Value(0)
	if !math.IsNaN(v) && !math.IsInf(v, 0) { // JSON has no such numbers; the bits tell
		r.Value = &v
	}
	r.Bits = x.Bits(0)
}

// inner writes the kernel records of a Call before its own: its subkernels, then the rest of it.
func (t *Tracer) inner(c *device.Call, op Record) {
	rest := op.Out
	op.Kind, op.Kernel = device.Inner.String(), c.Kernel.Name
	for _, sub := range c.Kernel.Subkernels {
		p := op
		p.Name, p.Out = sub.Name, nil
		for _, g := range op.Out {
			if sub.Has(g.Name) {
				p.Out = append(p.Out, g)
			}
		}
		t.detail(c, &p, sub.Name)
		t.write(p)
		rest = without(rest, sub)
	}
	op.Out = rest
	if len(c.Kernel.Subkernels) == 0 {
		t.detail(c, &op, "")
	}
	t.write(op)
}

func without(sigs []Sig, sub device.Subkernel) []Sig {
	var out []Sig
	for _, g := range sigs {
		if !sub.Has(g.Name) {
			out = append(out, g)
		}
	}
	return out
}

func (t *Tracer) detail(c *device.Call, r *Record, subkernel string) {
	for _, a := range c.Arrivals {
		r.Arrivals = append(r.Arrivals, Arrival(a))
	}
	for _, p := range t.partials {
		if p.Subkernel == subkernel {
			r.Partials = append(r.Partials, t.sign.partial(p))
		}
	}
}
