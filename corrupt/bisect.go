package corrupt

import (
	"math"

	"github.com/zeebo/xxh3"

	"firstbit/device"
	"firstbit/run"
)

// A chain is the digest of all that a rank wrote in a step up to a Call of it.
type chain struct {
	sum  uint64
	site Site // of that Call
	comm bool // it reads what other ranks have
	n    int  // Calls of the step
}

// probe replays a run to a step, and returns the chain of every rank up to its Call of that number, or to the last. Only what lies before is
// digested: a replay may end there.
func probe(s run.Spec, step int, at []int) ([]chain, error) {
	chains := make([]chain, len(at))
	s.Until, s.Digest = step, false
	s.Watch = func(rank int) device.Middleware {
		c, buf := &chains[rank], []byte(nil)
		return func(next device.Runner) device.Runner {
			return func(call *device.Call) {
				next(call)
				if call.ID.Step != step || call.Kind == device.Module {
					return
				}
				if c.n++; c.n > at[rank] {
					return
				}
				for _, out := range call.Out {
					d := out.Digest(buf)
					c.sum = xxh3.HashSeed(d[:], c.sum)
				}
				c.site = Site{rank, call.ID.Phase.String(), call.ID.Path}
				c.comm = call.Kind == device.Collective || call.Kind == device.P2P
			}
		}
	}
	_, err := run.Run(s)
	return chains, err
}

// bisected is where two places first compute something else.
type bisected struct {
	site    Site
	ok      bool
	replays int     // in each place
	part    float64 // of a step that they ran, together, in each place
}

// bisect finds the first Call of a step that a place does not compute as another does: all ranks search at once, each for its own first, so it takes
// as many replays as halving the Calls of a step does. The one that communicates with nobody is the origin; where all do it is the
// earliest.
func bisect(here, elsewhere run.Spec, step int) (b bisected, err error) {
	n := here.Layout.World()
	lo, hi, at := make([]int, n), make([]int, n), make([]int, n) // equal up to lo, different up to hi
	for i := range at {
		at[i] = math.MaxInt32
	}
	different := make([]chain, n)
	for {
		a, err := probe(here, step, at)
		if err != nil {
			return b, err
		}
		c, err := probe(elsewhere, step, at)
		if err != nil {
			return b, err
		}
		b.replays++
		furthest := 0.0
		for i := range at {
			furthest = max(furthest, float64(min(at[i], a[i].n))/float64(max(a[i].n, 1)))
			same := a[i].sum == c[i].sum
			switch {
			case b.replays == 1 && same:
				lo[i], hi[i] = 0, 0 // the rank has nothing to find
			case same:
				lo[i] = at[i]
			default:
				hi[i], different[i] = min(at[i], a[i].n), a[i]
			}
		}
		b.part += furthest
		more := false
		for i := range at {
			at[i] = (lo[i] + hi[i]) / 2
			more = more || hi[i]-lo[i] > 1
		}
		if !more {
			break
		}
	}
	best := -1
	for i := range hi {
		if hi[i] == 0 {
			continue
		}
		if best < 0 || different[best].comm && !different[i].comm || different[best].comm == different[i].comm && hi[i] < hi[best] {
			best = i
		}
	}
	if best >= 0 {
		b.site, b.ok = different[best].site, true
	}
	return b, nil
}
