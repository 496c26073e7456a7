package nn

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/rng"
)

// masked is two layers that draw from one stream.
type masked struct {
	*device.Device
	stream *Stream
	masks  [2]*Mask
	x      *device.Tensor
	calls  int
}

func newMasked(make func(*Stream, float64) *Mask, rate float64, f lowp.Format) *masked {
	m := &masked{stream: NewStream("dropout.tp"), x: device.NewTensor(f, 3, 5)}
	m.Device = device.New(device.Options{}, func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			m.calls++
			next(c)
		}
	})
	m.stream.Seed(rng.New(7, "dropout.tp"))
	m.masks = [2]*Mask{make(m.stream, rate), make(m.stream, rate)}
	for i := range m.x.Len() {
		m.x.Set(i, float64(i+1))
	}
	return m
}

// run takes both layers through a phase and returns what they made of x.
func (m *masked) run(phase device.Phase) (y [2][]float64) {
	m.Enter(phase)
	for i := range y {
		k := i
		if phase != device.Fwd {
			k = 1 - i // a backward goes from the last layer to the first
		}
		out := m.masks[k].Forward(m.In("layers."+string(rune('0'+k))), m.x)
		for j := range out.Len() {
			y[k] = append(y[k], out.Value(j))
		}
	}
	return y
}

func (m *masked) state() [16]byte { return [16]byte(m.stream.State.Bytes(nil)) }

// expected draws the masks beside the door.
func expected(s *rng.Stream, x *device.Tensor, f lowp.Format, value func(u float64) float64) (y []float64) {
	t := device.NewTensor(f, 1)
	for i := range x.Len() {
		factor := device.NewTensor(MasterFormat(f), 1)
		factor.Set(0, value(s.Float64()))
		if f == lowp.FP64 {
			t.Set(0, float64(x.Value(i)*factor.Value(0)))
		} else {
			t.Set(0, float64(float32(x.Value(i))*float32(factor.Value(0))))
		}
		y = append(y, t.Value(0))
	}
	return y
}

// A stream's state is its source's 16 bytes; a forward draws in the order of the layers, element by element.
func TestMasksAreDrawnInOrder(t *testing.T) {
	kinds := map[string]struct {
		make  func(*Stream, float64) *Mask
		value func(u float64) float64
	}{
		"dropout": {Dropout, func(u float64) float64 {
			if u < 0.3 {
				return 0
			}
			return 1 / 0.7
		}},
		"jitter": {Jitter, func(u float64) float64 { return float64((2*u-1)*0.3) + 1 }},
	}
	for name, kind := range kinds {
		for _, f := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP64} {
			m, want := newMasked(kind.make, 0.3, f), rng.New(7, "dropout.tp")
			for step := range 3 {
				bytes, err := want.MarshalBinary()
				require.NoError(t, err)
				require.Equal(t, bytes, m.stream.State.Bytes(nil), "16 bytes, as the source says them")
				m.At(step+1, 0, device.Fwd)
				y := m.run(device.Fwd)
				require.Equal(t, expected(want, m.x, f, kind.value), y[0], "%s %s", name, f)
				require.Equal(t, expected(want, m.x, f, kind.value), y[1], "%s %s", name, f)
			}
		}
	}
	require.Equal(t, 4, NewStream("s").State.Len())
}

// A recomputation draws what the forward drew, in any order of layers, and leaves the stream to the next microbatch.
func TestRecomputationLeavesTheStreamAlone(t *testing.T) {
	run := func(recompute bool) (forward, again [][2][]float64, state [16]byte) {
		m := newMasked(Dropout, 0.4, lowp.FP32)
		for micro := range 3 {
			m.At(1, micro, device.Fwd)
			forward = append(forward, m.run(device.Fwd))
			before := m.state()
			if recompute {
				again = append(again, m.run(device.Rec))
				require.Equal(t, before, m.state())
			}
		}
		return forward, again, m.state()
	}
	plain, _, state := run(false)
	forward, again, after := run(true)
	require.Equal(t, plain, forward)
	require.Equal(t, plain, again)
	require.Equal(t, state, after)
	require.NotEqual(t, plain[0], plain[1], "every microbatch has masks of its own")
}

// The backward multiplies by the mask that the last forward, or its recomputation, drew; without a mask nothing
// passes the door.
func TestMaskBackward(t *testing.T) {
	m := newMasked(Dropout, 0.4, lowp.FP32)
	m.At(1, 0, device.Fwd)
	y := m.run(device.Fwd)
	m.Enter(device.Bwd)
	for k := range y {
		dx := m.masks[k].Backward(m.In("layers."+string(rune('0'+k))), m.x)
		for i, v := range y[k] { // linear in x, so that its own transpose
			require.Equal(t, v, dx.Value(i))
		}
	}
	before := m.calls
	var none *Mask
	require.Same(t, m.x, none.Forward(m.Device, m.x))
	require.Same(t, m.x, none.Backward(m.Device, m.x))
	require.Equal(t, before, m.calls)
}

// Extreme rates: all that is kept is scaled, and nothing is ever all noise.
func TestMaskRates(t *testing.T) {
	for _, rate := range []float64{0, 1e-300, 0.5, 0.999} {
		for _, u := range []float64{0, 0.25, 0.5, 1 - 0x1p-53} {
			v := keepOrDrop(u, rate)
			require.True(t, v == 0 && u < rate || v == 1/(1-rate) && u >= rate)
			require.False(t, math.IsInf(v, 0))
			j := jitter(u, rate)
			require.GreaterOrEqual(t, j, 1-rate)
			require.LessOrEqual(t, j, 1+rate)
		}
	}
}
