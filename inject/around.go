package inject

import (
	"bytes"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/state"
)

var (
	seedKernel     = &device.Kernel{Name: "seed"}
	iteratorKernel = &device.Kernel{Name: "iterator"}
)

// Around restores a rank's states after a step, with what programs do to random streams before and after a restore. A restore that comes
// later undoes it.
func (i Injector) Around(dev *device.Device, step int, states []device.Held, restore func() error) error {
	var streams []stream
	for _, s := range states {
		if s.Role == state.RandomStream {
			streams = append(streams, newStream(s))
		}
	}
	i.disturb(dev, step, streams, true)
	if err := restore(); err != nil {
		return err
	}
	i.disturb(dev, step, streams, false)
	return nil
}

// stream is a random stream of a run that continues.
type stream struct {
	device.Held
	seeded *device.Tensor // its state at the run's beginning
}

func newStream(s device.Held) stream {
	seeded := device.NewTensor(s.Format, s.Shape()...)
	seeded.CopyFrom(s.Tensor)
	return stream{s, seeded}
}

func (i Injector) disturb(dev *device.Device, step int, streams []stream, early bool) {
	for _, f := range i.Faults {
		if f.Kind != "seed" && f.Kind != "draw" || !f.on(i.Rank) || f.Early != early {
			continue
		}
		dev.At(step, 0, device.Load)
		for _, s := range streams {
			if !f.Names(s.Name) {
				continue
			}
			was := s.Bytes(nil)
			if f.Kind == "seed" {
				s.seed(dev.In("seed"))
			} else {
				s.draw(dev.In("iterator"))
			}
			f.act(!bytes.Equal(s.Bytes(nil), was))
		}
	}
}

// seed seeds the stream as at the beginning.
func (s stream) seed(dev *device.Device) {
	c := dev.OpenState(device.Loading, s.Held, seedKernel)
	c.Read("stream", s.Tensor)
	before := c.Write("before", lowp.INT32, s.Len())
	c.Update("stream", s.Tensor)
	c.Body = func(*device.Call) {
		before.CopyFrom(s.Tensor)
		s.CopyFrom(s.seeded)
	}
	c.Do()
}

// draw draws once from the stream, as building a data iterator may.
func (s stream) draw(dev *device.Device) {
	c := dev.OpenKind(device.Draw, s.Name, iteratorKernel)
	c.Read("stream", s.Tensor)
	value := c.Write("value", lowp.FP64, 1)
	c.Update("stream", s.Tensor)
	c.Body = func(*device.Call) { value.Set(0, draw(s.Tensor, 1)) }
	c.Do()
}
