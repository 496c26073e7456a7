// Package inject breaks: faults act on Calls as kernels write them, on memory between Calls, on orders through the tuner's policy, and
// around the restore of a run that continues.
package inject

import (
	"fmt"
	"slices"

	"firstbit/device"
	"firstbit/tune"
)

// Fault is one fault of one rank's: which Calls it selects, and the action of its kind.
type Fault struct {
	Text string // as the user wrote it
	Selector

	in             *Injector
	kind           *kind
	action         action
	fields         []field
	acted, changed int
	err            error
}

// action is what a fault does. Each kind's is one or more of the interfaces below besides.
type action interface {
	// on tells whether there is something to do on such a Call, wherever in the run it is.
	on(c *device.Call) bool
}

// runner runs a selected Call its own way.
type runner interface {
	run(f *Fault, c *device.Call, next device.Runner)
}

// follower runs each Call of its name, now or out of its steps and microbatch: what it does depends on what they wrote before.
type follower interface {
	follow(f *Fault, c *device.Call, now bool, next device.Runner)
}

// watcher runs every Call of a rank, outside the trace; selected is one of its name that is to be broken now.
type watcher interface {
	watch(f *Fault, c *device.Call, selected bool, next device.Runner)
}

// preparer has something to do before any fault runs a Call of its name, now or out of its steps and microbatch.
type preparer interface {
	prepare(f *Fault, c *device.Call, now bool)
}

// fitter sees each Call of its name once, at the first step, whichever the fault's is, and says by Fault.fail what does not fit.
type fitter interface {
	fit(f *Fault, c *device.Call)
}

// chooser acts through the tuner.
type chooser interface {
	policy() *tune.Policy
}

// Kind is the name of the fault's kind.
func (f *Fault) Kind() string { return f.kind.Name }

// On tells whether a fault of the kind can act on such a Call.
func (f *Fault) On(c *device.Call) bool { return f.action.on(c) }

// Noun is what the fault acts on.
func (f *Fault) Noun() string {
	if f.restores() && f.kind.state != "" {
		return f.kind.state
	}
	return f.kind.noun
}

// States tells whether the fault acts on states by their names.
func (f *Fault) States() bool { return f.restores() && f.kind.state != "" || f.kind.noun == streamNoun }

// Either tells whether faults of the kind act on states in a restore, and on Calls elsewhere.
func (f *Fault) Either() bool { return f.kind.state != "" && f.kind.noun != streamNoun }

// Settle says whether the run continues from a checkpoint: there some kinds act on the restore, unless a step, a microbatch or a phase is given.
func (f *Fault) Settle(resumes bool) {
	if f.kind.state != "" && resumes && !f.timed() {
		f.Phase = device.Load
	}
	if x, ok := f.action.(*disturbance); ok && !f.restores() {
		x.settle(f)
	}
}

// Policy is the tuner's part of the fault, nil for most.
func (f *Fault) Policy() *tune.Policy {
	if c, ok := f.action.(chooser); ok {
		return c.policy()
	}
	return nil
}

// Counts is on how many outputs, states or plans the fault acted so far, and how many of them were others for it. A fault that
// changes nothing was not injected.
func (f *Fault) Counts() (acted, changed int) {
	if p := f.Policy(); p != nil {
		return p.Calls, p.Hits
	}
	if x, ok := f.action.(*late); ok { // until they run, what Calls would have written is not there
		return f.acted + len(x.waiting), f.changed + len(x.waiting)
	}
	return f.acted, f.changed
}

// act counts one action.
func (f *Fault) act(changed bool) {
	f.acted++
	if changed {
		f.changed++
	}
}

// Err is the first thing about the fault that did not fit a Call it named.
func (f *Fault) Err() error { return f.err }

func (f *Fault) fail(c *device.Call, format string, a ...any) {
	if f.err == nil {
		f.err = f.bad("%s: %s", c.ID.Path, fmt.Sprintf(format, a...))
	}
}

// bad is an error about the fault.
func (f *Fault) bad(format string, a ...any) error {
	return fmt.Errorf("--inject %q: %s", f.Text, fmt.Sprintf(format, a...))
}

// Injector is the middleware of one rank.
type Injector struct {
	Rank   int
	At     device.Coord
	Ranks  []device.Coord   // of the run, by rank
	Groups map[string][]int // the ranks of each group
	Faults []*Fault

	Watched func(c *device.Call) bool // whether a tracer looks at the Call; nil: there is none

	dev     *device.Device
	streams []stream
	busy    bool // with streams
}

// Middleware acts on outputs right after the kernel wrote them, inside the trace.
func (i *Injector) Middleware(next device.Runner) device.Runner { return i.around(next, false) }

// Memory acts on memory around Calls, outside the trace.
func (i *Injector) Memory(next device.Runner) device.Runner { return i.around(next, true) }

// outside tells whether a fault acts outside the trace: what is in memory when a Call reads it is what the trace shows.
func (f *Fault) outside() bool {
	_, watches := f.action.(watcher)
	_, prepares := f.action.(preparer)
	return watches || prepares || f.Rest
}

// around runs each Call through the faults that select it: the first of them is the nearest to the kernel, so that what a later one leaves
// is what counts.
func (i *Injector) around(next device.Runner, outside bool) device.Runner {
	var mine, watchers []*Fault
	for _, f := range i.Faults {
		f.in = i
		if _, tuned := f.action.(chooser); tuned || f.outside() != outside || !f.OnRank(i.Rank, i.At) {
			continue
		}
		mine = append(mine, f)
		if _, watches := f.action.(watcher); watches {
			watchers = append(watchers, f)
		}
	}
	if len(mine) == 0 {
		return next
	}
	named := map[*device.Call][]*Fault{} // Calls are used again: each is matched once
	return func(c *device.Call) {
		faults, seen := named[c]
		if !seen {
			faults = naming(mine, c)
			named[c] = faults
		}
		run := next
		for _, f := range faults {
			run = f.wrap(c, run)
		}
		for _, f := range slices.Backward(watchers) { // the first sees a Call first
			inner, selected := run, f.Now(c) && slices.Contains(faults, f)
			run = func(c *device.Call) { f.action.(watcher).watch(f, c, selected, inner) }
		}
		run(c)
	}
}

// wrap is how a Call runs that the fault names.
func (f *Fault) wrap(c *device.Call, next device.Runner) device.Runner {
	now := f.Now(c)
	if p, ok := f.action.(preparer); ok {
		p.prepare(f, c, now)
	}
	switch x := f.action.(type) {
	case follower:
		return func(c *device.Call) { x.follow(f, c, now, next) }
	case runner:
		if now {
			return func(c *device.Call) { x.run(f, c, next) }
		}
	}
	return next
}

// everyMember tells whether the fault acts on all ranks of a collective.
func (f *Fault) everyMember(c *device.Call) bool {
	return !slices.ContainsFunc(f.in.Groups[c.Group], func(rank int) bool { return !f.OnRank(rank, f.in.Ranks[rank]) })
}

// naming are the faults that name a Call.
func naming(all []*Fault, c *device.Call) (faults []*Fault) {
	for _, f := range all {
		if !f.InPhase(c.ID.Phase) || !f.action.on(c) || !f.names(c) {
			continue
		}
		if x, ok := f.action.(fitter); ok {
			x.fit(f, c)
		}
		faults = append(faults, f)
	}
	return faults
}

// everyCall is the on of actions for Calls of whatever kind. A module's boundary shows what its Calls wrote, and writes nothing; state is
// shown where there is a trace.
type everyCall struct{}

func (everyCall) on(c *device.Call) bool { return c.Kind != device.Module && c.Kind != device.State }
