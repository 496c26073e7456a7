// Package swarm draws pairs of small runs, one of which has a fault of any kind at any Call, and holds what a localiser says of their two
// traces against what was injected.
//
// A swarm follows from its seed: which cases it has does not depend on who runs them, or on how many at a time.
package swarm

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"firstbit/rng"
)

// Options are which cases of a swarm run, and who localises them.
type Options struct {
	Seed     uint64
	N        int    // cases of the swarm
	Shard    int    // which part of it runs
	Shards   int    // of so many; 0: one
	Kind     string // of all cases; empty: every kind in turn
	Localise Localiser
	Shrink   int    // a miss is run so often with less, to find what it is missed with
	Done     func() // after every case; nil: nobody counts
}

// Cases are the numbers of the cases of a shard: from lo to below hi.
func (o *Options) Cases() (lo, hi int) {
	shards := max(o.Shards, 1)
	return o.N * o.Shard / shards, o.N * (o.Shard + 1) / shards
}

// Run runs a shard's cases, as many at a time as there are processors. A miss is shrunk to the fewest options with which it is still
// missed.
func Run(ctx context.Context, o Options) (*Result, error) {
	lo, hi := o.Cases()
	found := make([]drawn, hi-lo)
	next := make(chan int)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := range next {
				found[i-lo] = o.one(i)
				if o.Done != nil {
					o.Done()
				}
			}
		})
	}
	for i := lo; i < hi && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	r := &Result{Seed: o.Seed, Of: o.N, Shards: []Span{{lo, hi}}, Kinds: map[string]*Count{}, Missed: []Missed{}}
	for i := range found {
		r.add(&found[i])
	}
	r.settle()
	return r, nil
}

// drawn is a case of a swarm, the last of those that were drawn for it.
type drawn struct {
	Case
	trial
	harmless, refused, unseen int // of those before it
}

// The most that is drawn for one case: worlds, and faults for each.
const (
	mostWorlds = 50
	mostFaults = 6
)

// one draws a case until its fault leaves other bits, and tries it.
func (o *Options) one(i int) (found drawn) {
	k := deal(i)
	if o.Kind != "" {
		k = kindOf(o.Kind)
	}
	b := &bench{}
	defer b.close()
	d := die{rng.New(o.Seed, "swarm", uint64(i))}
	for range mostWorlds {
		world := d.world(k.needs)
		world.Kind = k.name
		for range mostFaults {
			c := world
			c.Set = slices.Clone(world.Set)
			if err := b.healthy(&c); err != nil {
				found.Case, found.trial = c, trial{err: err}
				return found
			}
			if !k.draw(d, &c, b) {
				continue
			}
			d.besides(k, &c)
			found.Case, found.trial = c, b.try(&c, o.Localise)
			switch t := &found.trial; {
			case t.harmless && t.right:
				found.harmless++
			case t.refused:
				found.refused++
			case t.unseen:
				found.unseen++
			default:
				if t.err == nil && !t.right {
					o.shrink(b, &found)
				}
				return found
			}
		}
	}
	found.trial = trial{err: fmt.Errorf("of %s nothing was drawn that leaves other bits", k.name)}
	return found
}
