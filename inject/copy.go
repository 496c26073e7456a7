package inject

import (
	"slices"

	"firstbit/checkpoint"
	"firstbit/device"
)

var copyKind = &kind{Name: "copy", noun: "state", restores: true, Example: "copy@rng.jitter.ep from=0",
	does: "restores on all ranks, unless R is given, the state that rank F saved",
	make: func(s *Selector) (action, []field) {
		c := &copied{}
		s.Phase = device.Load
		return c, []field{number("from", "F", &c.from, most), s.rank()}
	}}

// copied is a state that a rank restores from another's file.
type copied struct{ from int }

func (*copied) on(c *device.Call) bool { return c.Kind == device.Loading }

// File is what this rank restores of the files that ranks saved: its own, with the states that faults take from another's.
func (i Injector) File(ranks []*checkpoint.File) (*checkpoint.File, error) {
	own := ranks[i.Rank]
	file := &checkpoint.File{Tensors: slices.Clone(own.Tensors)}
	for j, x := range own.Tensors {
		f, from := i.copies(x.Name)
		if f == nil {
			continue
		}
		if from >= len(ranks) {
			return nil, f.bad("from: %d: must be from 0 to %d, the ranks that were saved", from, len(ranks)-1)
		}
		other, ok := ranks[from].Tensor(x.Name)
		if !ok {
			return nil, f.bad("rank %d saved no %s", from, x.Name)
		}
		f.act(!x.Same(other))
		file.Tensors[j] = other
	}
	return file, nil
}

// copies is the last fault by which the rank restores a state that another saved, and that rank; nil: none.
func (i Injector) copies(state string) (of *Fault, from int) {
	for _, f := range i.Faults {
		if c, ok := f.action.(*copied); ok && f.onRank(i.Rank) && f.Names(state) {
			of, from = f, c.from
		}
	}
	return of, from
}
