package quant

import (
	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/rng"
)

// Words are random words, one for each element that is rounded stochastically: from a stream, or keyed by the place in the run.
type Words struct {
	*nn.Stream        // nil: keyed
	Seed       uint64 // of keyed words
}

var (
	streamWords = &device.Kernel{Name: "words", In: device.Names("stream"), Scalars: device.Names("n"), Out: device.Names("words stream"),
		Run: runStreamWords}
	keyedWords = &device.Kernel{Name: "words.indexed", Scalars: device.Names("seed.high seed.low n"), Out: device.Names("words"), Run: runKeyedWords}
)

func (w *Words) draw(d *device.Device, label string, x *device.Tensor) *device.Tensor {
	if w.Stream == nil {
		c := d.OpenKind(device.Draw, label, keyedWords)
		c.ReadScalar("seed.high", float64(w.Seed>>32)) // a seed has more bits than a scalar
		c.ReadScalar("seed.low", float64(uint32(w.Seed)))
		words := writeWords(c, x)
		c.Do()
		return words
	}
	c := d.OpenKind(device.Draw, label, streamWords)
	c.Read("stream", w.State)
	words := writeWords(c, x)
	c.Update("stream", w.State)
	c.Do()
	return words
}

// writeWords declares a word for each element of x. How many there are follows from the routes of experts' tokens, so it is part of what is read.
func writeWords(c *device.Call, x *device.Tensor) *device.Tensor {
	c.ReadScalar("n", float64(x.Len()))
	return c.Write("words", lowp.INT32, x.Shape()...)
}

func runStreamWords(c *device.Call) {
	s := nn.ReadState("", c.Input("stream"))
	fillWords(c.Output("words").I32(), s)
	nn.WriteState(s, c.Output("stream"))
}

// runKeyedWords draws from a stream keyed by the Call's place: which tokens a block holds depends on the layout, and so does
// what they are rounded by.
func runKeyedWords(c *device.Call) {
	at, seed := c.ID.At, uint64(c.Scalar("seed.high"))<<32|uint64(c.Scalar("seed.low"))
	s := rng.New(seed, "sr")
	s.Seek(seed, c.Key(), uint64(c.ID.Step), uint64(c.ID.Micro), uint64(at.PP), uint64(at.DP), uint64(at.TP), uint64(at.CP), uint64(at.EP))
	fillWords(c.Output("words").I32(), s)
}

func fillWords(words []int32, s *rng.Stream) {
	for i := range words {
		words[i] = int32(uint32(s.Uint64() >> 32))
	}
}
