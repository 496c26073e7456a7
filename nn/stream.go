package nn

import (
	"encoding/binary"

	"firstbit/device"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/rng"
)

// Stream is a random stream whose state is a tensor, so that draws pass the door, and traces
// and checkpoints carry the state, like any other.
type Stream struct {
	Name  string
	State *device.Tensor // 16 bytes, as four int32
}

// NewStream makes a stream that has yet to be seeded.
func NewStream(name string) *Stream {
	return &Stream{Name: name, State: device.NewTensor(lowp.INT32, 4)}
}

// Seed takes over the state of another stream.
func (s *Stream) Seed(from *rng.Stream) { WriteState(from, s.State) }

// WriteState stores where a stream stands.
func WriteState(s *rng.Stream, state *device.Tensor) {
	b, err := s.MarshalBinary()
	if err != nil {
		panic("nn: a stream refuses to say its state")
	}
	for i := range state.I32() {
		state.I32()[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
}

// ReadState is a stream that stands where a state says.
func ReadState(name string, state *device.Tensor) *rng.Stream {
	s := rng.New(0, name)
	if err := s.UnmarshalBinary(state.Bytes(nil)); err != nil {
		panic("nn: a stream refuses its state")
	}
	return s
}

// Mask is a tensor of factors drawn from a stream: which elements dropout keeps, or by how much a
// router's input is jittered. A recomputation draws it again, from the state in which the
// forward found the stream, and leaves the stream alone; or, if draws are indexed, from the same indices.
type Mask struct {
	*Stream         // nil: draws are indexed
	Rows    *Rows   // what indexed draws depend on
	Label   string  // of the Call that multiplies; that of the draw is Label.mask
	Rate    float64 // probability that an element is dropped, or half the width of the jitter

	kernels       *maskKernels
	before, value *device.Tensor // the stream's state before the forward's draw; the mask
}

var (
	// A forward keeps the stream's state before the draw; a recomputation reads it.
	maskIn, maskRate, maskOut = device.Names("before? stream"), device.Names("rate"), device.Names("mask stream before?")
	indices                   = device.Names("rate seed.high seed.low step sample token tokens first")

	dropoutMask, jitterMask = newMaskKernels("dropout", keepOrDrop), newMaskKernels("jitter", jitter)
	mulKernel               = &device.Kernel{Name: "mul", ByToken: true, In: device.Names("x mask"), Out: device.Names("y"), Run: device.Width(runMul[float32], runMul[float64])}
)

// maskKernels draw the masks of one kind: from a stream, or from indices.
type maskKernels struct{ stream, indexed *device.Kernel }

func newMaskKernels(name string, value factor) *maskKernels {
	return &maskKernels{
		stream:  &device.Kernel{Name: name + ".mask", ByToken: true, In: maskIn, Scalars: maskRate, Out: maskOut, Run: runMask(value)},
		indexed: &device.Kernel{Name: name + ".indexed", ByToken: true, Scalars: indices, Out: device.Names("mask"), Run: runIndexed(name, value)}}
}

// factor makes an element of a mask of a uniform number.
type factor func(u, rate float64) float64

// fill draws a mask, row by row, column by column, each row from the stream that is given for it.
func (f factor) fill(c *device.Call, stream func(row int) *rng.Stream) {
	mask, rate := c.Output("mask"), c.Scalar("rate")
	cols := mask.Cols()
	for i := range mask.Rows() {
		s := stream(i)
		for j := range cols {
			mask.Set(i*cols+j, f(s.Float64(), rate))
		}
	}
}

// Dropout is y = x·mask, an element of the mask being 0 with probability rate, else 1/(1−rate). Without a stream draws are indexed.
func Dropout(s *Stream, rate float64) *Mask {
	return &Mask{Stream: s, Label: "dropout", Rate: rate, kernels: dropoutMask}
}

// Jitter is y = x·mask, the mask being uniform from 1−rate to 1+rate. Without a stream draws are indexed.
func Jitter(s *Stream, rate float64) *Mask {
	return &Mask{Stream: s, Label: "jitter", Rate: rate, kernels: jitterMask}
}

func keepOrDrop(u, rate float64) float64 {
	if u < rate {
		return 0
	}
	return 1 / (1 - rate)
}

func jitter(u, rate float64) float64 { return float64((float64(2*u)-1)*rate) + 1 }

// Forward is y = x·mask, with a mask drawn for the occasion; x itself without a Mask.
func (m *Mask) Forward(d *device.Device, x *device.Tensor) *device.Tensor {
	if m == nil {
		return x
	}
	if m.Stream == nil {
		m.value = m.Rows.draw(d, m.Label+".mask", m.kernels.indexed, m.Rate, x)
	} else {
		m.draw(d, x)
	}
	return m.multiply(d, m.Label, x)
}

// draw draws from the stream.
func (m *Mask) draw(d *device.Device, x *device.Tensor) {
	c := d.OpenKind(device.Draw, m.Label+".mask", m.kernels.stream)
	if d.Phase() == device.Rec {
		c.Read("before", m.before)
	}
	c.Read("stream", m.State)
	c.ReadScalar("rate", m.Rate)
	m.value = c.Write("mask", MasterFormat(x.Format), x.Shape()...)
	c.Update("stream", m.State)
	if d.Phase() != device.Rec {
		m.before = c.Write("before", lowp.INT32, m.State.Len())
	}
	c.Do()
}

// Backward is dx = dy·mask; dy itself without a Mask.
func (m *Mask) Backward(d *device.Device, dy *device.Tensor) *device.Tensor {
	if m == nil {
		return dy
	}
	return m.multiply(d, m.Label+".dx", dy)
}

func (m *Mask) multiply(d *device.Device, label string, x *device.Tensor) *device.Tensor {
	c := d.Open(label, mulKernel)
	c.Read("x", x)
	c.Read("mask", m.value)
	y := c.Write("y", x.Format, x.Shape()...)
	c.Do()
	return y
}

// runMask fills a mask, an element a draw: from the stream, which it moves on, or in a recomputation from the copy that the forward made of
// its state.
func runMask(value factor) func(*device.Call) {
	return func(c *device.Call) {
		stream, again := c.Input("stream"), c.ID.Phase == device.Rec
		from := stream
		if again {
			from = c.Input("before")
		} else {
			copy(c.Output("before").I32(), stream.I32())
		}
		s := ReadState("", from)
		value.fill(c, func(int) *rng.Stream { return s })
		if !again {
			WriteState(s, stream)
		}
	}
}

func runMul[T libm.Float](c *device.Call) {
	mul(device.Out[T](c, "y"), device.In[T](c, "x"), device.In[T](c, "mask"))
}
