// Package inject breaks: faults act on Calls as kernels write them, on memory between Calls, on orders through the tuner's policy, and
// around the restore of a run that continues.
package inject

import (
	"fmt"

	"firstbit/device"
	"firstbit/tune"
)

// Fault is one fault of one rank's: which Calls it selects, and the action of its kind.
type Fault struct {
	Text string // as the user wrote it
	Selector

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

// Noun is what faults of the kind act on.
func (f *Fault) Noun() string { return f.kind.noun }

// Restores tells whether the fault acts where a run continues from a checkpoint, and nowhere else.
func (f *Fault) Restores() bool { return f.kind.restores }

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
	Faults []*Fault
}

// Middleware acts on outputs right after the kernel wrote them, inside the trace.
func (i Injector) Middleware(next device.Runner) device.Runner { return i.around(next, false) }

// Memory acts on outputs after the Call is over, outside the trace.
func (i Injector) Memory(next device.Runner) device.Runner { return i.around(next, true) }

// around runs each Call through the faults that select it: the first of them is the nearest to the kernel, so that what a later one leaves
// is what counts.
func (i Injector) around(next device.Runner, rest bool) device.Runner {
	var mine []*Fault
	for _, f := range i.Faults {
		if _, tuned := f.action.(chooser); !tuned && f.Rest == rest && f.onRank(i.Rank) {
			mine = append(mine, f)
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
			now := f.now(c)
			if p, ok := f.action.(preparer); ok {
				p.prepare(f, c, now)
			}
			if r, ok := f.action.(runner); ok && now {
				inner := run
				run = func(c *device.Call) { r.run(f, c, inner) }
			}
		}
		run(c)
	}
}

// naming are the faults that name a Call.
func naming(all []*Fault, c *device.Call) (faults []*Fault) {
	for _, f := range all {
		if !f.inPhase(c.ID.Phase) || !f.action.on(c) || !f.names(c) {
			continue
		}
		if x, ok := f.action.(fitter); ok {
			x.fit(f, c)
		}
		faults = append(faults, f)
	}
	return faults
}

// everyCall is the on of actions for Calls of whatever kind. A module's boundary shows what its Calls wrote, and writes nothing.
type everyCall struct{}

func (everyCall) on(c *device.Call) bool { return c.Kind != device.Module }
