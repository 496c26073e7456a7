package train

import (
	"bytes"
	"strings"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/rng"
)

// What programs do to random streams around a restore. A restore that comes later undoes it.

var (
	seedKernel     = &device.Kernel{Name: "seed"}
	iteratorKernel = &device.Kernel{Name: "iterator"}
)

// IsStream tells whether a state is that of a random stream.
func IsStream(state string) bool { return strings.HasPrefix(state, streamState) }

// seeded is a stream as it is at the beginning.
func (t *Trainer) seeded(name string) *rng.Stream { return rng.New(t.Seed, name+t.of(name)) }

// Reseed seeds the streams whose states have matching names as at the beginning. It returns how many, and how many were elsewhere.
func (t *Trainer) Reseed(step int, match func(state string) bool) (streams, moved int) {
	return t.eachStream(step, "seed", match, func(dev *device.Device, s *nn.Stream) {
		c := dev.OpenKind(device.Loading, streamState+s.Name, seedKernel)
		c.Read("stream", s.State)
		before := c.Write("before", lowp.INT32, s.State.Len())
		c.Update("stream", s.State)
		c.Body = func(*device.Call) {
			before.CopyFrom(s.State)
			s.Seed(t.seeded(s.Name))
		}
		c.Do()
	})
}

// DrawOnce draws once from the streams whose states have matching names, as building a data iterator may. It returns how many, all of
// which moved.
func (t *Trainer) DrawOnce(step int, match func(state string) bool) (streams, moved int) {
	return t.eachStream(step, "iterator", match, func(dev *device.Device, s *nn.Stream) {
		c := dev.OpenKind(device.Draw, streamState+s.Name, iteratorKernel)
		c.Read("stream", s.State)
		value := c.Write("value", lowp.FP64, 1)
		c.Update("stream", s.State)
		c.Body = func(*device.Call) {
			from := rng.New(0, s.Name)
			if err := from.UnmarshalBinary(s.State.Bytes(nil)); err != nil {
				panic("train: a stream refuses its state")
			}
			value.Set(0, from.Float64())
			s.Seed(from)
		}
		c.Do()
	})
}

func (t *Trainer) eachStream(step int, scope string, match func(string) bool, do func(*device.Device, *nn.Stream)) (streams, moved int) {
	t.dev.At(step, 0, device.Load)
	for _, s := range t.weights.Streams() {
		if match(streamState + s.Name) {
			was := s.State.Bytes(nil)
			do(t.dev.In(scope), s)
			streams++
			if !bytes.Equal(s.State.Bytes(nil), was) {
				moved++
			}
		}
	}
	return streams, moved
}
