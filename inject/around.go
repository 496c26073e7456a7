package inject

import (
	"errors"
	"fmt"

	"firstbit/device"
	"firstbit/state"
	"firstbit/tune"
)

const streamNoun = "random stream"

// stream is a random stream of a run.
type stream struct {
	device.Held
	seeded *device.Tensor // its state at the run's beginning
}

// disturbance moves streams before or after a restore, or in a step before the first Call of a phase.
type disturbance struct {
	when string
	do   func(dev *device.Device, s stream)
	last device.ID // the place in the run where it was done
}

func disturbing(do func(dev *device.Device, s stream)) func(*Selector) (action, []field) {
	return func(*Selector) (action, []field) {
		x := &disturbance{when: "after", do: do}
		return x, []field{choice("when", &x.when, "before", "after")}
	}
}

// on leaves all but the states of streams.
func (*disturbance) on(c *device.Call) bool {
	return c.Kind == device.Loading && c.Scope == "" && c.State != nil && c.State.Role == state.RandomStream
}

// settle has it act before the forward of microbatch 0 unless another phase or microbatch is given.
func (*disturbance) settle(f *Fault) {
	if f.Phase == tune.StepPhases {
		f.Phase = device.Fwd
	}
	if f.Micro == tune.Every {
		f.Micro = 0
	}
}

func (x *disturbance) check(_ Run, loads bool) error {
	if !loads && x.when != "after" {
		return errors.New("when: is about a restore: a step has step=, micro= and phase=")
	}
	return nil
}

func (x *disturbance) watch(f *Fault, c *device.Call, _ bool, next device.Runner) {
	at := device.ID{Step: c.ID.Step, Micro: c.ID.Micro, Phase: c.ID.Phase}
	if !f.in.busy && !f.restores() && f.Phase == at.Phase && f.Now(c) && x.last != at {
		x.last = at
		step, micro, phase := f.in.dev.Where()
		f.in.disturb(f, x, at)
		f.in.dev.At(step, micro, phase)
	}
	next(c)
}

// Begin tells of the device and the random streams of a run at its beginning.
func (i *Injector) Begin(dev *device.Device, streams []device.Held) {
	i.dev = dev
	for _, s := range streams {
		i.streams = append(i.streams, stream{s, same(s.Tensor)})
	}
}

// Around restores a rank's states after a step, with what programs do to random streams before and after a restore. A restore that comes
// later undoes it.
func (i *Injector) Around(step int, restore func() error) error {
	i.restoring(step, "before")
	if err := restore(); err != nil {
		return err
	}
	i.restoring(step, "after")
	return nil
}

func (i *Injector) restoring(step int, when string) {
	for _, f := range i.Faults {
		at := device.ID{Step: step, Phase: device.Load}
		if x, ok := f.action.(*disturbance); ok && f.restores() && x.when == when && f.OnRank(i.Rank, i.At) && f.Steps.Has(step) {
			i.disturb(f, x, at)
		}
	}
}

func (i *Injector) disturb(f *Fault, x *disturbance, at device.ID) {
	i.dev.At(at.Step, at.Micro, at.Phase)
	i.busy = true
	defer func() { i.busy = false }()
	for _, s := range i.streams {
		if f.Names(s.Name) {
			was := same(s.Tensor)
			x.do(i.dev, s)
			f.act(!equal(s.Tensor, was))
		}
	}
}

// free is a label that no Call has had at this place of the run: a stream may be disturbed twice.
func free(dev *device.Device, name string) string {
	label := name
	for n := 2; dev.Ran(dev.Phase(), label) != nil; n++ {
		label = fmt.Sprintf("%s.%d", name, n)
	}
	return label
}
