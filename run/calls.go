package run

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"firstbit/device"
	"firstbit/reduce"
)

// CallKind is a Call of a run's first step, whichever microbatches and ranks have it.
type CallKind struct {
	Name    string
	Kernel  string
	Phase   device.Phase
	Plan    reduce.Plan
	Rank    int // the first that has it
	ordinal int
}

// Calls runs the first step of a Spec and lists its Calls in the order in which the ranks come to them, those of the first rank first.
func Calls(s Spec) ([]CallKind, error) {
	var mu sync.Mutex
	found := map[[2]string]CallKind{}
	begun := make([]int, s.Layout.World())
	s.Until = 1
	s.Watch = func(rank int) device.Middleware {
		return func(next device.Runner) device.Runner {
			return func(c *device.Call) {
				next(c)
				if c.Kind == device.Module || c.ID.Step != 1 {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				begun[rank]++
				key := [2]string{c.ID.Phase.String(), c.ID.Path}
				if was, ok := found[key]; !ok || rank < was.Rank {
					found[key] = CallKind{c.ID.Path, c.Kernel.Name, c.ID.Phase, c.Plan, rank, begun[rank]}
				}
			}
		}
	}
	if _, err := Run(s); err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(found), func(a, b CallKind) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.ordinal, b.ordinal))
	}), nil
}
