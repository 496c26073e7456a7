package run

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/reduce"
)

// CallKind is a Call of a run's first step, whichever microbatches and ranks have it.
type CallKind struct {
	Name    string
	Kernel  string
	Phase   device.Phase
	Plan    reduce.Plan
	Rank    int                 // the first that has it
	MMA     map[string][]string // of a sum that tensor cores may add up, the architectures that multiply its operands
	ordinal int
}

// architectures are those whose tensor cores may add up a sum.
func architectures(s device.Summed) (all []string) {
	if !s.Products {
		return nil
	}
	for _, arch := range lowp.MMAArchs {
		if _, err := lowp.MMAOf(arch, s.Of, lowp.FP32); err == nil {
			all = append(all, arch)
		}
	}
	return all
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
				mma := map[string][]string{}
				c.Leaves = func(s device.Summed) { mma[s.Name] = architectures(s) }
				next(c)
				c.Leaves = nil
				if c.Kind == device.Module || c.ID.Step != 1 {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				begun[rank]++
				key := [2]string{c.ID.Phase.String(), c.ID.Path}
				if was, ok := found[key]; !ok || rank < was.Rank {
					found[key] = CallKind{c.ID.Path, c.Kernel.Name, c.ID.Phase, c.Plan, rank, mma, begun[rank]}
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
