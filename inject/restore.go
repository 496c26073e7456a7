package inject

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/tidwall/match"

	"firstbit/checkpoint"
	"firstbit/device"
)

// restoreKinds are the faults of a restore: of what it reads, and of what a program does around it.
var restoreKinds = []Kind{
	{"drop", "drop@GLOB [rank=R]: omits states from a restore, or other Calls of it, on all ranks unless R is given: they keep what the run began with",
		"drop@rng.dropout.tp"},
	{"set", "set@GLOB value=V [elem=I] [rank=R]: restores V as element I of a state, on all ranks unless R is given",
		"set@optim.step value=1"},
	{"copy", "copy@GLOB [from=F] [rank=R]: restores on all ranks, unless R is given, the state that rank F saved",
		"copy@rng.jitter.ep from=0"},
	{"seed", "seed@GLOB [when=before|after] [rank=R]: seeds random streams as at the run's beginning, before or after they are restored",
		"seed@rng.* when=after"},
	{"draw", "draw@GLOB [when=before|after] [rank=R]: draws once from random streams, as a data iterator does that is built before or after they are restored",
		"draw@rng.dropout.tp when=after"},
}

const allRanks = -1

// on tells whether the fault is one of a rank's.
func (f *Fault) on(rank int) bool { return f.Rank == rank || f.Rank == allRanks }

// dropped tells whether a Call of a restore is to be omitted.
func (f *Fault) dropped(c *device.Call) bool {
	if f.Kind != "drop" || !f.hits(c) {
		return false
	}
	f.act(otherwise(c))
	return true
}

// otherwise tells whether a Call of a restore that is omitted would have left other bits than there are.
func otherwise(c *device.Call) bool {
	if c.Kind != device.Loading || len(c.Out) != 1 { // the others take more with them than their output
		return true
	}
	if c.Body == nil {
		return false
	}
	t := c.Out[0].Tensor
	is := device.NewTensor(t.Format, t.Shape()...)
	is.CopyFrom(t)
	c.Body(c)
	same := bytes.Equal(t.Bytes(nil), is.Bytes(nil))
	t.CopyFrom(is)
	return !same
}

// set writes the value over an element of what was restored.
func (f *Fault) set(c *device.Call) {
	t := c.Out[0].Tensor
	if f.Elem >= t.Len() {
		f.fail(c, "elem=%d: the state has %d elements", f.Elem, t.Len())
		return
	}
	if v := f.Value; t.I32() != nil && (v != math.Trunc(v) || v < math.MinInt32 || v > math.MaxInt32) {
		f.fail(c, "value=%g: the state holds whole numbers from %d to %d", v, math.MinInt32, math.MaxInt32)
		return
	}
	was := t.Bits(f.Elem)
	t.Set(f.Elem, f.Value)
	f.act(t.Bits(f.Elem) != was)
}

// Names tells whether the fault's GLOBs name a state.
func (f *Fault) Names(state string) bool {
	return match.Match(state, f.Glob) || f.with != "" && match.Match(state, f.with)
}

// File is what this rank restores of the files that ranks saved: its own, with the states that faults take from another's.
func (i Injector) File(ranks []*checkpoint.File) (*checkpoint.File, error) {
	own := ranks[i.Rank]
	file := &checkpoint.File{Tensors: slices.Clone(own.Tensors)}
	for j, x := range own.Tensors {
		f := i.copies(x.Name)
		if f == nil {
			continue
		}
		if f.From >= len(ranks) {
			return nil, fmt.Errorf("--inject %q: from: %d: must be from 0 to %d, the ranks that were saved", f.Text, f.From, len(ranks)-1)
		}
		other, ok := ranks[f.From].Tensor(x.Name)
		if !ok {
			return nil, fmt.Errorf("--inject %q: rank %d saved no %s", f.Text, f.From, x.Name)
		}
		f.act(!x.Same(other))
		file.Tensors[j] = other
	}
	return file, nil
}

// copies is the last fault by which a rank restores a state that another saved; nil: none.
func (i Injector) copies(state string) (from *Fault) {
	for _, f := range i.Faults {
		if f.Kind == "copy" && f.on(i.Rank) && match.Match(state, f.Glob) {
			from = f
		}
	}
	return from
}
