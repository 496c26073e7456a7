// Package inject breaks: faults of value act on outputs as kernels write them, faults of memory
// between Calls, faults of order through the tuner's policy.
package inject

import (
	"fmt"
	"math"
	"slices"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/spell"
	"firstbit/trace"
	"firstbit/tune"
)

// Kind documents one kind of fault.
type Kind struct {
	Name    string `json:"kind"`
	Syntax  string `json:"syntax"`
	Example string `json:"example"`
}

// Kinds are the faults there are.
var Kinds = append(runKinds, restoreKinds...)

// runKinds are those of a run's steps.
var runKinds = []Kind{
	{"flip", "flip@GLOB [step=SET] [rank=R] [micro=M] [phase=P] [out=NAME] [elem=I] [bit=B] [at=rest]: flips bit B of element I of an output, as the kernel writes it, or with at=rest in memory after the Call",
		"flip@layers.2.moe.router.logits rank=0 step=3 elem=17 bit=0"},
	{"order", "order@GLOB [step=SET] NAME=VALUE …: sets items of the plan: reductions to an ORDER, choices to a value",
		"order@*.dprob tiles=arrival sched=dynamic step=3-"},
	{"alias", "alias@GLOB with=GLOB [step=SET] [rank=R]: the first outputs of the Calls that either names lie in one memory, on all ranks unless R is given",
		"alias@*.moe.dispatch.a2a with=*.moe.combine.a2a.dx"},
	{"live", "live@GLOB [step=SET] [rank=R]: recomputations draw masks from their stream as it stands, and move it on, on all ranks unless R is given",
		"live@*.dropout.mask"},
	{"rebuild", "rebuild@GLOB source=bf16|dequantised [step=SET] [rank=R]: copies of weights are quantised from the weight rounded to bf16, or from what a copy stands for, on all ranks unless R is given",
		"rebuild@quant.layers.1.attn.* step=3 source=bf16"},
}

// Fault is one fault to inject.
type Fault struct {
	Text  string
	Kind  string
	Glob  string
	Steps trace.Set
	Rank  int
	Micro int
	Phase device.Phase
	Out   string // output's name; empty: the first
	Elem  int
	Bit   int
	Rest  bool // in memory after the Call, not on the kernel's write
	Value float64
	From  int  // the rank whose state another takes over
	Early bool // before the restore, not after it

	acted, changed int
	with           string // GLOB of an alias's other Calls
	source         string // of a rebuild
	memory         *device.Tensor
	tenants        []*device.Tensor
	policy         *tune.Policy
	named          map[*device.Call]bool
	err            error
}

// Policy is the tuner's part of an order fault, nil for others.
func (f *Fault) Policy() *tune.Policy { return f.policy }

// Counts is on how many outputs, states or plans the fault acted so far, and how many of them were others for it. A fault that
// changes nothing was not injected.
func (f *Fault) Counts() (acted, changed int) {
	if f.policy != nil {
		return f.policy.Calls, f.policy.Hits
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

// Globs are the names that must all occur for the fault to act.
func (f *Fault) Globs() []string {
	if f.with != "" {
		return []string{f.Glob, f.with}
	}
	return []string{f.Glob}
}

// Restores tells whether the fault acts where a run continues from a checkpoint, and nowhere else.
func (f *Fault) Restores() bool {
	return slices.ContainsFunc(restoreKinds, func(k Kind) bool { return k.Name == f.Kind })
}

// Err is the first thing about the fault that did not fit a Call it named.
func (f *Fault) Err() error { return f.err }

// Injector is the middleware of one rank.
type Injector struct {
	Rank   int
	Faults []*Fault
}

// Middleware acts on outputs right after the kernel wrote them, inside the trace.
func (i Injector) Middleware(next device.Runner) device.Runner { return i.around(next, false) }

// Memory acts on outputs after the Call is over, outside the trace.
func (i Injector) Memory(next device.Runner) device.Runner { return i.around(next, true) }

func (i Injector) around(next device.Runner, rest bool) device.Runner {
	var mine []*Fault
	for _, f := range i.Faults {
		if f.Kind != "order" && f.Rest == rest && f.on(i.Rank) {
			mine = append(mine, f)
		}
	}
	if len(mine) == 0 {
		return next
	}
	return func(c *device.Call) {
		for _, f := range mine {
			if f.dropped(c) {
				return
			}
			f.alias(c)
		}
		replaced(mine, next)(c)
		for _, f := range mine {
			switch {
			case f.Kind == "flip" && f.hits(c):
				f.flip(c)
			case f.Kind == "set" && f.hits(c):
				f.set(c)
			}
		}
	}
}

// replaced runs a Call as the first fault that has another way to run it does.
func replaced(mine []*Fault, next device.Runner) device.Runner {
	return func(c *device.Call) {
		for _, f := range mine {
			switch {
			case f.Kind == "live" && c.ID.Phase == device.Rec && f.during(c):
				f.live(c, next)
				return
			case f.Kind == "rebuild" && f.during(c):
				f.rebuild(c, next)
				return
			}
		}
		next(c)
	}
}

// during tells whether the fault names a Call of its steps, in whatever phase and microbatch.
func (f *Fault) during(c *device.Call) bool {
	return c.Kind != device.Module && f.names(c) && f.Steps.Has(c.ID.Step)
}

func (f *Fault) hits(c *device.Call) bool {
	id := &c.ID
	if id.Phase != f.Phase || c.Kind == device.Module || !f.names(c) {
		return false
	}
	return id.Micro == f.Micro && f.Steps.Has(id.Step)
}

// names tells whether the fault's GLOBs name a Call. Calls are used again: each is matched once, and whether a flip fits it is
// known at its first step, whichever the fault's is.
func (f *Fault) names(c *device.Call) bool {
	if f.named == nil {
		f.named = map[*device.Call]bool{}
	}
	named, seen := f.named[c]
	if !seen {
		named = c.Matches(f.Glob) || f.with != "" && c.Matches(f.with)
		f.named[c] = named
		if named && f.Kind == "flip" {
			f.output(c)
		}
	}
	return named
}

// output is what a flip acts on; nil: the Call has no such output, or none so wide.
func (f *Fault) output(c *device.Call) *device.Tensor {
	var names []string
	for i, out := range c.Out {
		names = append(names, out.Name)
		if (f.Out != "" || i > 0) && out.Name != f.Out {
			continue
		}
		if bits := out.Format.Bits(); f.Bit >= bits {
			f.fail(c, "bit=%d: must be from 0 to %d: output %s is %s", f.Bit, bits-1, out.Name, out.Format)
			return nil
		}
		return out.Tensor
	}
	if len(names) == 0 {
		f.fail(c, "has no output")
	} else {
		f.fail(c, "has no output %q: %s", f.Out, spell.OneOf(f.Out, names))
	}
	return nil
}

func (f *Fault) flip(c *device.Call) {
	t := f.output(c)
	if t == nil {
		return
	}
	if f.Elem >= t.Len() {
		f.fail(c, "elem=%d: the output has %d elements", f.Elem, t.Len())
		return
	}
	was := t.Bits(f.Elem)
	switch {
	case t.F32() != nil:
		x := &t.F32()[f.Elem]
		*x = t.Format.Decode(t.Format.Encode(*x) ^ 1<<f.Bit)
	case t.Format == lowp.FP64:
		x := &t.F64()[f.Elem]
		*x = math.Float64frombits(lowp.Bits(*x) ^ 1<<f.Bit)
	default:
		t.I32()[f.Elem] ^= 1 << f.Bit
	}
	f.act(t.Bits(f.Elem) != was) // a NaN may stay one
}

func (f *Fault) fail(c *device.Call, format string, a ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("--inject %q: %s: %s", f.Text, c.ID.Path, fmt.Sprintf(format, a...))
	}
}
