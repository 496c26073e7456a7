package nn

import (
	"firstbit/device"
	"firstbit/kernel"
	"firstbit/lowp"
	"firstbit/rng"
)

// Delayed is the scale of an operand by the amaxes of earlier steps. History and Scale are state of training; Amax is what this step
// has seen so far.
//
// Source: TransformerEngine's delayed scaling, by the largest of the history, without a margin.
type Delayed struct {
	Name                 string
	History, Scale, Amax *device.Tensor

	label    string
	gradient bool
}

func newDelayed(name string, history int, gradient bool) *Delayed {
	d := &Delayed{Name: name, History: device.NewTensor(lowp.FP32, history), Scale: device.NewTensor(lowp.FP32, 1), Amax: device.NewTensor(lowp.FP32, 1),
		label: name + ".scale", gradient: gradient}
	d.Scale.F32()[0] = 1
	return d
}

var (
	amaxKernel   = &device.Kernel{Name: "amax", Run: runAmax}
	amaxPack     = &device.Kernel{Name: "amax.pack", Run: runAmaxPack}
	amaxUnpack   = &device.Kernel{Name: "amax.unpack", Run: runAmaxUnpack}
	delayedScale = map[bool]*device.Kernel{
		false: {Name: "delayed_scale.e4m3", Run: func(c *device.Call) { runDelayedScale(c, lowp.E4M3) }},
		true:  {Name: "delayed_scale.e5m2", Run: func(c *device.Call) { runDelayedScale(c, lowp.E5M2) }},
	}
)

// amax counts x in; a weight, of which there is one a step, is all there is to count.
func amax(d *device.Device, label string, x *device.Tensor, to *Delayed, weight bool) {
	c := d.Open(label, amaxKernel)
	c.Read("x", x)
	if !weight {
		c.Read("amax", to.Amax)
	}
	c.Update("amax", to.Amax)
	c.Do()
}

func runAmax(c *device.Call) {
	amax := kernel.Amax(c.In[0].F32())
	if len(c.In) > 1 {
		amax = max(amax, c.In[1].F32()[0])
	}
	c.Out[0].F32()[0] = amax
}

// UpdateScales ends a step: largest takes the amaxes to the largest that any rank saw, histories move on, and scales are those of
// the next step.
func UpdateScales(d *device.Device, all []*Delayed, largest func(*device.Device, *device.Tensor) *device.Tensor) {
	c := d.Open("amax.pack", amaxPack)
	for _, x := range all {
		c.Read(x.Name, x.Amax)
	}
	seen := c.Write("amax", lowp.FP32, len(all))
	c.Do()
	c = d.Open("amax.unpack", amaxUnpack)
	c.Read("amax", largest(d, seen))
	for _, x := range all {
		c.Update(x.Name, x.Amax)
	}
	c.Do()
	for _, x := range all {
		c := d.Open(x.label, delayedScale[x.gradient])
		c.Read("amax", x.Amax)
		c.Read("history", x.History)
		c.Read("scale", x.Scale)
		c.Update("history", x.History)
		c.Update("scale", x.Scale)
		c.Update("amax", x.Amax)
		c.Do()
	}
}

func runAmaxPack(c *device.Call) {
	for i := range c.In {
		c.Out[0].F32()[i] = c.In[i].F32()[0]
	}
}

func runAmaxUnpack(c *device.Call) {
	for i := range c.Out {
		c.Out[i].F32()[0] = c.In[0].F32()[i]
	}
}

func runDelayedScale(c *device.Call, f lowp.Format) {
	history, scale, amax := c.Out[0].F32(), c.Out[1].F32(), c.Out[2].F32()
	history[0] = amax[0]
	scale[0], _ = kernel.DelayedScale(f, history, scale[0], false, 0)
	amax[0] = 0
}

// Words are random words, one for each element that is rounded stochastically: from a stream, or keyed by the place in the run.
type Words struct {
	*Stream        // nil: keyed
	Seed    uint64 // of keyed words
}

var (
	streamWords = &device.Kernel{Name: "words", Run: runStreamWords}
	keyedWords  = &device.Kernel{Name: "words.indexed", Run: runKeyedWords}
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
	s := ReadState("", c.In[0].Tensor)
	fillWords(c.Out[0].I32(), s)
	WriteState(s, c.Out[1].Tensor)
}

// runKeyedWords draws from a stream keyed by the Call's place: which tokens a block holds depends on the layout, and so does
// what they are rounded by.
func runKeyedWords(c *device.Call) {
	at, seed := c.ID.At, uint64(c.Scalar("seed.high"))<<32|uint64(c.Scalar("seed.low"))
	s := rng.New(seed, "sr")
	s.Seek(seed, c.Key(), uint64(c.ID.Step), uint64(c.ID.Micro), uint64(at.PP), uint64(at.DP), uint64(at.TP), uint64(at.CP), uint64(at.EP))
	fillWords(c.Out[0].I32(), s)
}

func fillWords(words []int32, s *rng.Stream) {
	for i := range words {
		words[i] = int32(uint32(s.Uint64() >> 32))
	}
}
