package model

import (
	"math"

	"firstbit/device"
	"firstbit/libm"
	"firstbit/nn"
	"firstbit/rng"
)

// initializer is how a weight begins: value draws each of its elements from the weight's own stream.
type initializer struct {
	kernel *device.Kernel
	decay  bool // weight decay applies to it
	master bool // kept at master width, whatever the precision
	linear bool // its products may run on quantised operands
	a, b   float64
	value  func(s *rng.Stream, a, b float64) float64
}

func draws(name string) *device.Kernel {
	return &device.Kernel{Name: name, Scalars: device.Names("a b"), Out: device.Names("w master?")}
}

var (
	weight  = initializer{kernel: draws("normal"), decay: true, value: normal} // a: the standard deviation, set by the config
	linear  = initializer{kernel: weight.kernel, decay: true, linear: true, value: normal}
	one     = initializer{kernel: draws("fill"), a: 1, value: constant}
	skip    = initializer{kernel: draws("fill"), master: true, a: 1, value: constant}
	stepGap = initializer{kernel: draws("dt_bias"), master: true, a: 1e-3, b: 0.1, value: inverseSoftplus}
	decayed = initializer{kernel: draws("log_uniform"), master: true, a: 1, b: 16, value: logUniform}
)

// around0 is uniform within ±1/√taps, PyTorch's default for a convolution.
func around0(taps int, decay bool) initializer {
	r := 1 / math.Sqrt(float64(taps))
	return initializer{kernel: draws("uniform"), decay: decay, a: -r, b: r, value: uniform}
}

func normal(s *rng.Stream, std, _ float64) float64 { return s.Norm() * std }

func constant(_ *rng.Stream, v, _ float64) float64 { return v }

func uniform(s *rng.Stream, lo, hi float64) float64 { return lo + float64((hi-lo)*s.Float64()) }

// logUniform is log U(lo, hi). Source: Mamba's A_log; docs/facts.md, Model.
func logUniform(s *rng.Stream, lo, hi float64) float64 { return libm.Log(uniform(s, lo, hi)) }

// inverseSoftplus is the bias whose softplus is exp(U(log lo, log hi)), at least 1e-4.
// Source: Mamba's dt_bias; docs/facts.md, Model.
func inverseSoftplus(s *rng.Stream, lo, hi float64) float64 {
	dt := max(libm.Exp(uniform(s, libm.Log(lo), libm.Log(hi))), 1e-4)
	return dt + libm.Log(-libm.Exp(-dt)+1)
}

// Streams makes the random stream of a name.
type Streams func(name string) *rng.Stream

// Init seeds the model's streams and draws every weight from a stream of its own name, "init." and the
// weight's, so that no weight depends on which others there are or where they live. Linear weights are N(0, init_std²), divided by
// √(2L) where a layer writes to the residual; norms are ones; Mamba's are as docs/facts.md, Model has them.
func (w *Weights) Init(dev *device.Device, streams Streams) {
	main, _ := w.Layers()
	residual := 1 / math.Sqrt(2*float64(len(main)))
	for _, s := range w.streams {
		s.Seed(streams(s.Name))
	}
	for i, p := range w.params {
		in := w.initials[i]
		if in.kernel == weight.kernel {
			in.a = w.InitStd
			if writesResidual(p.Name) {
				in.a *= residual
			}
		}
		initParam(dev, p, in, streams)
	}
}

func initParam(dev *device.Device, p *nn.Param, in initializer, streams Streams) {
	c := dev.OpenKind(device.Draw, p.Name, in.kernel)
	c.ReadScalar("a", in.a)
	c.ReadScalar("b", in.b)
	c.Update("w", p.W)
	if p.Master != p.W {
		c.Update("master", p.Master)
	}
	c.Body = func(*device.Call) {
		s := streams("init." + p.Name)
		n := p.Master.Len()
		for at := range p.Place.Elements() { // all are drawn, whichever part is here
			v := in.value(s, in.a, in.b)
			if i, here := p.Place.Find(at, n); here {
				p.Master.Set(i, v)
			}
		}
		p.W.CopyFrom(p.Master)
	}
	c.Do()
}

// writesResidual tells the last weight of a branch. Experts behind a latent have two: their w2 and
// latent.up are both divided, as in Megatron Core.
func writesResidual(name string) bool {
	for _, s := range []string{".attn.wo", ".w2", ".out_proj", ".latent.up"} {
		if len(name) > len(s) && name[len(name)-len(s):] == s {
			return true
		}
	}
	return false
}
