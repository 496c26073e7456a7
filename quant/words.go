package quant

import (
	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/reduce"
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
	tokenWords = &device.Kernel{Name: "words.token", In: device.Names("tokens offsets?"), Out: device.Names("words"), Fixed: reduce.MustPlan("by=token|place"),
		Scalars: device.Names("seed.high seed.low seq batch window data expert column"), Run: runTokenWords}
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

// drawByToken draws for rows of known tokens.
func (w *Words) drawByToken(d *device.Device, label string, x *device.Tensor, of Rows, s *Shared) *device.Tensor {
	c := d.OpenKind(device.Draw, label, tokenWords)
	c.Read("tokens", of.Tokens)
	c.ReadIf("offsets", of.Offsets)
	c.ReadScalar("seed.high", float64(w.Seed>>32)) // a seed has more bits than a scalar
	c.ReadScalar("seed.low", float64(uint32(w.Seed)))
	for _, n := range [...]struct {
		name string
		n    int
	}{{"seq", s.Seq}, {"batch", s.Batch}, {"window", s.Window}, {"data", s.Data}, {"expert", s.Expert}, {"column", s.Column}} {
		c.ReadScalar(n.name, float64(n.n))
	}
	words := c.Write("words", lowp.INT32, x.Shape()...)
	c.Do()
	return words
}

// runTokenWords draws a row's words from a stream keyed by (seed, Call, step, sample, position, expert), the first for the first column of the
// whole product. By place it is keyed by the rank and the row.
func runTokenWords(c *device.Call) {
	at, seed, s := c.ID.At, uint64(c.Scalar("seed.high"))<<32|uint64(c.Scalar("seed.low")), rng.New(0, "sr")
	seq, batch, window, data := int(c.Scalar("seq")), int(c.Scalar("batch")), int(c.Scalar("window")), int(c.Scalar("data"))
	words, d, expert := c.Output("words").I32(), c.Output("words").Cols(), 0
	for r, token := range c.Input("tokens").I32() {
		if offsets := c.Input("offsets"); offsets != nil {
			for expert < offsets.Len()-2 && r >= int(offsets.I32()[expert+1]) {
				expert++
			}
		}
		sequence, position := int(token)/seq, int(token)%seq
		sample := ((data+sequence/batch)*window+c.ID.Micro)*batch + sequence%batch
		key := [...]uint64{c.Key(), uint64(c.ID.Step), uint64(sample), uint64(position), uint64(int(c.Scalar("expert")) + expert)}
		if c.Plan.Choice("by") == "place" {
			key = [...]uint64{c.Key(), uint64(c.ID.Step), uint64(c.ID.Micro), uint64(r), uint64(at.DP)<<32 | uint64(at.TP)<<16 | uint64(at.CP)<<8 | uint64(at.EP)}
		}
		s.Seek(seed, key[:]...)
		for range int(c.Scalar("column")) {
			s.Uint64()
		}
		fillWords(words[r*d:][:d], s)
	}
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
