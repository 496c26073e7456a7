package inject

import (
	"errors"
	"path/filepath"
	"slices"

	"firstbit/checkpoint"
	"firstbit/device"
	"firstbit/tune"
)

var copyKind = &kind{Name: "copy", noun: "Call", state: "state", phase: tune.StepPhases, Example: "copy@layers.1.attn.wq from-step=1 step=3",
	does: "an output is the one that the Call wrote at step S, earlier in the run; where a run continues, a state is restored as rank R saved it, or as the checkpoint of step S has it, beside the one that is resumed",
	make: func(*Selector) (action, []field) {
		c := &copied{fromRank: tune.Every, fromStep: tune.Every}
		rank := number("from-rank", "R", &c.fromRank, 0, tune.Most)
		rank.also = "from"
		return c, []field{rank, number("from-step", "S", &c.fromStep, 0, tune.Most), c.output.field()}
	}}

// copied is what another step wrote, or a state of another rank or step.
type copied struct {
	everyCall
	output
	fromRank, fromStep int
	kept               map[occasion]*device.Tensor
}

// occasion is a Call in a microbatch.
type occasion struct {
	key   uint64
	micro int
}

func (x *copied) check(_ Run, loads bool) error {
	switch {
	case loads && x.name != "":
		return errors.New("out: a state has one")
	case !loads && x.fromStep == tune.Every:
		return errors.New("from-step: must be given: in a run's steps an output is copied from an earlier one")
	case !loads && x.fromRank != tune.Every:
		return errors.New("from-rank: is about a restore: needs --resume DIR, and no step=, micro= and phase=")
	}
	return nil
}

// follow keeps what the Call wrote at the step and copies it later. What is restored comes from files: see File.
func (x *copied) follow(f *Fault, c *device.Call, now bool, next device.Runner) {
	next(c)
	if f.restores() || c.ID.Step < x.fromStep {
		return
	}
	t := x.output.of(f, c)
	at := occasion{c.Key(), c.ID.Micro}
	if t == nil {
		return
	}
	if c.ID.Step == x.fromStep {
		if x.kept == nil {
			x.kept = map[occasion]*device.Tensor{}
		}
		x.kept[at] = same(t)
		return
	}
	if old := x.kept[at]; now && old != nil {
		is := same(t)
		move(t, old, 0, min(t.Len(), old.Len())) // of rows that are routed there are others each time
		f.act(!equal(t, is))
	}
}

// File is what this rank restores of a checkpoint: its own file, with the states that faults take from another rank's, or from another checkpoint.
func (i *Injector) File(c *checkpoint.Checkpoint) (*checkpoint.File, error) {
	own := c.Ranks[i.Rank]
	file := &checkpoint.File{Tensors: slices.Clone(own.Tensors)}
	others := map[int]*checkpoint.Checkpoint{c.Step: c}
	for j, x := range own.Tensors {
		f, from := i.copies(x.Name, c.Step)
		if f == nil {
			continue
		}
		other, err := from.tensor(f, i.Rank, x.Name, c, others)
		if err != nil {
			return nil, err
		}
		f.act(!x.Same(other))
		file.Tensors[j] = other
	}
	return file, nil
}

// tensor is a state as a rank saved it in another checkpoint, or another rank in the same.
func (x *copied) tensor(f *Fault, rank int, name string, c *checkpoint.Checkpoint, others map[int]*checkpoint.Checkpoint) (other checkpoint.Tensor, err error) {
	step := c.Step
	switch {
	case x.fromRank != tune.Every:
		rank = x.fromRank
	case x.fromStep == tune.Every:
		rank = 0
	}
	if x.fromStep != tune.Every {
		step = x.fromStep
	}
	of := others[step]
	if of == nil {
		if of, err = checkpoint.Read(checkpoint.Path(filepath.Dir(c.Dir), step)); err != nil {
			return other, f.bad("from-step: %v", err)
		}
		others[step] = of
	}
	if rank >= len(of.Ranks) {
		return other, f.bad("from-rank: %d: must be from 0 to %d, the ranks that were saved", rank, len(of.Ranks)-1)
	}
	other, ok := of.Ranks[rank].Tensor(name)
	if !ok {
		return other, f.bad("rank %d saved no %s", rank, name)
	}
	return other, nil
}

// copies is the last fault by which the rank restores a state that another saved, or another checkpoint has; nil: none.
func (i *Injector) copies(state string, step int) (of *Fault, from *copied) {
	for _, f := range i.Faults {
		if c, ok := f.action.(*copied); ok && f.restores() && f.OnRank(i.Rank, i.At) && f.Names(state) && f.Steps.Has(step) {
			of, from = f, c
		}
	}
	return of, from
}
