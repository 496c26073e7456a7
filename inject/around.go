package inject

import (
	"bytes"

	"firstbit/device"
	"firstbit/state"
)

// stream is a random stream of a run that continues.
type stream struct {
	device.Held
	seeded *device.Tensor // its state at the run's beginning
}

// disturber moves streams before or after a restore.
type disturber interface {
	disturb(dev *device.Device, s stream)
	early() bool
}

// when is whether a disturber acts before the restore, or after it.
type when struct{ word string }

func (w *when) field() field { return choice("when", &w.word, "before", "after") }

func (w *when) early() bool { return w.word == "before" }

// on leaves all but the states of streams.
func (w *when) on(c *device.Call) bool {
	return c.Kind == device.Loading && c.Scope == "" && c.State != nil && c.State.Role == state.RandomStream
}

// Around restores a rank's states after a step, with what programs do to random streams before and after a restore. A restore that comes
// later undoes it.
func (i Injector) Around(dev *device.Device, step int, states []device.Held, restore func() error) error {
	var streams []stream
	for _, s := range states {
		if s.Role == state.RandomStream {
			streams = append(streams, stream{s, same(s.Tensor)})
		}
	}
	i.disturb(dev, step, streams, true)
	if err := restore(); err != nil {
		return err
	}
	i.disturb(dev, step, streams, false)
	return nil
}

func (i Injector) disturb(dev *device.Device, step int, streams []stream, early bool) {
	for _, f := range i.Faults {
		x, ok := f.action.(disturber)
		if !ok || x.early() != early || !f.onRank(i.Rank) {
			continue
		}
		dev.At(step, 0, device.Load)
		for _, s := range streams {
			if f.Names(s.Name) {
				was := s.Bytes(nil)
				x.disturb(dev, s)
				f.act(!bytes.Equal(s.Bytes(nil), was))
			}
		}
	}
}
