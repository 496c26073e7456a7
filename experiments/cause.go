// Package experiments keeps the catalog of root causes: for each, a pair of runs that parts, what the localiser must find, and what
// makes the pair one again.
package experiments

import (
	"fmt"
	"slices"
	"strings"

	"firstbit/diff"
	"firstbit/parallel"
	"firstbit/spell"
	"firstbit/trace"
	"firstbit/train"
)

// Cause is a root cause of lost determinism, as data.
type Cause struct {
	About
	Found

	config func() train.Config
	// stop is the step after which a run is saved for those that continue; 0: none does. The runs of the broken pair both
	// continue. Of the others run A is never stopped.
	stop int
	// around is how many checkpoints of steps before and after that one are kept beside it.
	around int
	// vary is what differs between the two runs of every pair: the source of the fault.
	vary [2]variation
	// broken lets the source reach the bits; cured closes that way again while the source
	// still varies; healthy is a pair that never had it.
	healthy, broken, cured setting
	// halves are cures that must not suffice.
	halves []half
	// harmless are settings in which the source does no harm: the pair must be identical.
	harmless []half
	// quiet are layouts on which the broken pair must be identical.
	quiet []string
	// across is set where run A is on one rank, with the samples of all, and run B on the layout that the cause is shown on: they are compared by what
	// both have, added up over ranks.
	across bool

	// elsewhere is set in another precision than the cause's own: there a format may round away what a sum has otherwise.
	elsewhere bool

	interrupt <-chan struct{} // of all its runs
}

// About is what the catalog says of a cause.
type About struct {
	ID       string `json:"id"`
	Part     string `json:"part"` // A orders of addition, B choices that are not sums, C state, D what fools the observer, E what others reported
	Title    string `json:"title"`
	Symptom  string `json:"symptom"`
	Cause    string `json:"cause"`
	Diagnose string `json:"diagnose"`
	Cure     string `json:"cure"`
	Source   string `json:"source"`
	// Reference is what the report that first described such causes as a whole says of it; nil: nothing.
	Reference *Reference `json:"reference,omitempty"`
	Layouts   []string   `json:"layouts"` // where it occurs; it is shown on the first

	// Precisions are those in which it occurs, and Only says why not in others; nil: in every one that it can be trained in.
	Precisions []string `json:"precisions"`
	Only       string   `json:"only,omitempty"`
}

// Found is what must be found in the pair that a cause makes differ.
type Found struct {
	// Root is the GLOB of the Call the localiser must name, on scope.name at kernel level, Class
	// the class it must give.
	Root, Class string `json:"-"` // empty across layouts, whose records are none of one Call
	// verdict is what it must come to; empty: origin.
	verdict string
	// also are GLOBs of further Calls that the cause makes a root of, independent of the first.
	also []string
	// silent is set where no metric and no step's state ever shows it: it is looked for in what was restored.
	silent bool
	// flips is set where at least one route must flip.
	flips bool
	// seen is a step whose trace alone shows it; 0: metrics or states do.
	seen int
	// unmoved is set where both runs have the same bits: it is the tracer that sees others.
	unmoved bool
	// within is how far apart the two runs of an across may be, or another rounding would be found first; empty: the bits count.
	within string
	// shallow is the verdict at op level, where that is another.
	shallow string
	// sameXOR is set where an output of the root has the same XOR in both runs.
	sameXOR bool
	// later is set where another Call that differs comes before the root by its name, and after it in time.
	later bool
	// unprinted is how many steps after the first with other bits the printed losses must still agree.
	unprinted int
}

// variation is what one run of a pair has for itself.
type variation struct {
	schedule uint64
	library  string // empty: the first release
	plans    []string
	faults   []string
	set      []string // fields of the configuration, path=value
}

// String says what the run has for itself.
func (v variation) String() string {
	parts := []string{fmt.Sprintf("schedule %d", v.schedule)}
	if v.library != "" {
		parts = append(parts, "library "+v.library)
	}
	for _, p := range v.plans {
		parts = append(parts, "plan "+p)
	}
	return strings.Join(slices.Concat(parts, v.set, v.faults), ", ")
}

// setting is what both runs of a pair share.
type setting struct {
	plans  []string
	faults []string
	set    []string // fields of the configuration
	recipe string   // empty: fixed
	source bool     // the variation is at work
	traced bool     // both runs are traced, by whatever tracer there is
}

type half struct {
	name string
	setting
}

// everyAxis lists layouts with each axis, and one with most at once.
var everyAxis = []string{"dp=1", "tp=2", "cp=2", "pp=2", "ep=2", "dp=2,tp=2,pp=2,ep=2"}

// catalog lists the causes in the order of the catalog's parts.
var catalog = []*Cause{
	dprobAtomics, auxLossAtomics, wgradSplitK, dqAtomics, embeddingScatter, mambaAtomics, unpermuteScatter, // A
	scaleCollective, bucketSize, ringPermutation, switchHistory, microbatchOrder, clipNorm, // A, over microbatches and ranks
	autotuneSwap, libraryUpdate, smCount, gpuGeneration, fmaContraction, layoutOrder, // A, by machine, library and layout
	topkTies, topkSlots, ssdChunk, lateFlag, bufferAlias, staleRead, bitFlip, // B
	rngOmission, scaleRebuild, rngDedupe, rngExtraDraw, rngReseed, rngLiveHandle, // C
	dataOffset, dataEpoch, gatherSkip, stepCounter, mxDoubleQuant, amaxHistory, biasDrift, // C
	blindSpot, probeUninit, probeAsync, probeCopy, xorPermutation, scalesOnly, signedZero, dtypeTwin, // D
	oneBadMember, keyOrderFirst, missingRecord, printedLoss, probeSync, probeEffect, // D
	bucketReuse, bucketRewrite, staticGradient, racingConfig, tuningWrites, reductionTuning, routerGradient, recomputedRouter, // E, in a run
	recomputeCounts, loaderDraw, ratePosition, syntheticStep, tornCheckpoint, staleMoments, // E, counters and states
	chunkBoundary, rowsTile, rngShard, // E, between two layouts
	lossScale, foundInf, normaliserLocal, meanOfMeans, shortWindow, maskLost, stageBoundaries, replicaDrift, replicaNorm, // E, of scaled losses, packed documents and replicas
}

// Causes lists the catalog.
func Causes() []*Cause { return catalog }

// Find returns the cause of an ID.
func Find(id string) (*Cause, error) {
	var ids []string
	for _, c := range catalog {
		if c.ID == id {
			return c, nil
		}
		ids = append(ids, c.ID)
	}
	return nil, fmt.Errorf("cause %q: %s", id, spell.OneOf(id, ids))
}

// Vary says what differs between runs A and B of its pairs.
func (c *Cause) Vary() (text [2]string) {
	for side, v := range c.vary {
		text[side] = v.String()
		if c.stop > 0 {
			text[side] = fmt.Sprintf("continues after step %d, %s", c.stop, v)
		}
	}
	if c.across {
		text[0] += ", on one rank"
		text[1] += ", on " + c.Layouts[0]
	}
	return text
}

// Across tells whether its two runs have two layouts.
func (c *Cause) Across() bool { return c.across }

// Persists tells whether that still differs in the cured pair.
func (c *Cause) Persists() bool { return c.cured.source }

// Cured says which of the program's doings around a restore the cure leaves.
func (c *Cause) Cured() string {
	if len(c.cured.faults) == 0 {
		return ""
	}
	return ", still with " + strings.Join(c.cured.faults, ", ")
}

// Stop is the step after which the runs of the faulty pair continue; 0: they begin at the beginning.
func (c *Cause) Stop() int { return c.stop }

// Window is the steps to trace for what a step read: those that continue read the checkpoint, just before their first.
func (c *Cause) Window(step int) trace.Set {
	if c.stop > 0 && step == c.stop+1 {
		return trace.Set{{Lo: c.stop, Hi: step}}
	}
	return trace.Set{{Lo: step, Hi: step}}
}

// Silent is the step whose restore alone shows the cause; 0: metrics or the state of a step do.
func (c *Cause) Silent() int {
	if c.silent {
		return c.stop
	}
	return 0
}

// Seen is the step whose trace alone shows the cause; 0: metrics or states do.
func (c *Cause) Seen() int { return c.seen }

// Unmoved tells whether both runs have the same bits, and it is the tracer that sees others.
func (c *Cause) Unmoved() bool { return c.unmoved }

// Localize finds where the cause's pair parts, from its traces alone. Where no metric shows it, it looks at the step that the cause names.
func (c *Cause) Localize(run diff.RunFunc, progress func(trace.Level)) (*diff.Report, error) {
	switch {
	case c.across:
		var within *diff.Within
		if c.within != "" {
			var err error
			if within, err = diff.ParseWithin(c.within); err != nil {
				return nil, err
			}
		}
		return diff.LocalizeLayouts(run, within, progress)
	case c.seen == 0:
		return diff.Localize(run, progress)
	}
	return diff.LookAt(run, c.seen, progress)
}

// Layout is the layout the cause is shown on.
func (c *Cause) Layout() parallel.Layout {
	l, err := parallel.ParseLayout(c.Layouts[0])
	if err != nil {
		panic(err) // the catalog is ours
	}
	return l
}

// Until is the cause with runs that end after a step once the channel is closed.
func (c *Cause) Until(interrupt <-chan struct{}) *Cause {
	other := *c
	other.interrupt = interrupt
	return &other
}

// Config is the configuration the cause is shown on.
func (c *Cause) Config() train.Config { return c.config() }
