package model

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

func family(f lowp.Format, t *testing.T, change func(*Config)) *bench {
	c := small("M*E-/*E")
	c.Dropout, c.MoE.Jitter, c.MTP.Repeated = 0.2, 0.1, true
	change(&c)
	return newBench(t, c, f)
}

// What is recomputed is what the forward made, bit for bit, in every tensor; and so are the gradients and
// the streams afterwards, with and without recomputation.
func TestRecomputationIsTheForward(t *testing.T) {
	for _, f := range []lowp.Format{lowp.FP32, lowp.BF16} {
		plain := family(f, t, func(*Config) {})
		again := family(f, t, func(c *Config) { c.Recompute = true })
		forward, checked := map[string][]byte{}, 0
		again.after = func(c *device.Call) {
			for _, o := range c.Out {
				if c.Kind == device.Module {
					continue
				}
				at := c.ID.Path + "#" + o.Name
				switch c.ID.Phase {
				case device.Fwd:
					forward[at] = slices.Clone(o.Bytes(nil))
				case device.Rec:
					if o.Name == "stream" || c.Kind == device.Recompute {
						continue
					}
					checked++
					require.Equal(t, forward[at], o.Bytes(nil), at)
				}
			}
		}
		for range 2 {
			plain.forwardBackward()
			again.forwardBackward()
		}
		require.Greater(t, checked, 100)
		for i, p := range plain.Params() {
			require.Equal(t, p.Grad.Bytes(nil), again.Params()[i].Grad.Bytes(nil), p.Name)
		}
		for i, s := range plain.Streams() {
			require.Equal(t, s.State.I32(), again.Streams()[i].State.I32(), s.Name)
		}
	}
}

// Dropout keeps about as many elements as it should and scales them, and no two masks are the same.
func TestDropoutMasks(t *testing.T) {
	b := family(lowp.FP32, t, func(c *Config) { c.Dropout = 0.25 })
	var masks [][]float32
	b.after = func(c *device.Call) {
		if c.Kernel.Name == "dropout.mask" {
			masks = append(masks, slices.Clone(c.Out[0].F32()))
		}
	}
	for range 50 {
		b.step++
		b.dev.At(b.step, 0, device.Fwd)
		b.Forward(b.dev, b.tokens, b.targets)
	}
	kept, n := 0, 0
	for i, m := range masks {
		for _, v := range m {
			n++
			if v != 0 {
				require.Equal(t, float32(1/0.75), v)
				kept++
			}
		}
		for _, other := range masks[:i] {
			require.NotEqual(t, other, m)
		}
	}
	require.InDelta(t, 0.75, float64(kept)/float64(n), 0.01)
}

// Repeated depths have the weights, bias and counts of the first, which come once; their Calls have their own names.
func TestRepeatedDepths(t *testing.T) {
	one := family(lowp.FP32, t, func(c *Config) { c.MTP.Depths = 1 })
	two := family(lowp.FP32, t, func(*Config) {})
	own := family(lowp.FP32, t, func(c *Config) { c.MTP.Repeated = false })
	require.Equal(t, names(one.Model), names(two.Model))
	for _, b := range []*bench{one, two, own} {
		require.Equal(t, b.Config.Params(), count(b.Model))
	}
	require.Greater(t, own.Config.Params(), two.Config.Params())
	require.Len(t, two.Routers(), 3)
	require.Equal(t, []bool{false, false, true}, []bool{two.Routers()[0].Shared, two.Routers()[1].Shared, two.Routers()[2].Shared})
	require.Same(t, two.Routers()[1].Bias, two.Routers()[2].Bias)
	require.Equal(t, "mtp.1.layers.1.moe.router", two.Routers()[2].Scope)
}

// The labels of a depth stand one step further each; the last steps have none, so its loss has fewer terms.
func TestDepthsPredictFurther(t *testing.T) {
	b := family(lowp.FP64, t, func(c *Config) { c.Dropout, c.MoE.Jitter = 0, 0 })
	var ids, labels [][]int32
	b.after = func(c *device.Call) {
		if c.Kernel.Name == "roll" {
			ids, labels = append(ids, slices.Clone(c.Out[0].I32())), append(labels, slices.Clone(c.Out[1].I32()))
		}
	}
	b.loss()
	tok, tgt := b.tokens.I32(), b.targets.I32()
	require.Equal(t, [][]int32{
		{tok[1], tok[2], tok[3], tok[4], 0, tok[6], tok[7], tok[8], tok[9], 0},
		{tok[2], tok[3], tok[4], 0, 0, tok[7], tok[8], tok[9], 0, 0}}, ids)
	require.Equal(t, [][]int32{
		{tgt[1], tgt[2], tgt[3], tgt[4], -1, tgt[6], tgt[7], tgt[8], tgt[9], -1},
		{tgt[2], tgt[3], tgt[4], -1, -1, tgt[7], tgt[8], tgt[9], -1, -1}}, labels)
	require.InDelta(t, 0.6/2/(2*4), b.MTPScale(0, 5, 1.0/10), 1e-15)
	require.InDelta(t, 0.6/2/(2*3), b.MTPScale(1, 5, 1.0/10), 1e-15)
}

// Mamba's own weights begin as the family's do.
func TestMambaInitialisation(t *testing.T) {
	c := small("M")
	c.SSM.Heads, c.SSM.Groups = 64, 8
	m := initial(t, c, lowp.FP64, 5)
	within := map[string][2]float64{"a_log": {0, 2.7725887222397816}, "dt_bias": {-6.91, -2.25}, "d": {1, 1}, "conv.w": {-0.5774, 0.5774},
		"conv.b": {-0.5774, 0.5774}, "norm.w": {1, 1}}
	seen := 0
	for _, p := range m.Params() {
		bounds, ok := within[p.Name[min(len(p.Name), len("layers.0.ssm.")):]]
		if !ok {
			continue
		}
		seen++
		lo, hi := p.W.Value(0), p.W.Value(0)
		for i := range p.W.Len() {
			lo, hi = min(lo, p.W.Value(i)), max(hi, p.W.Value(i))
		}
		require.GreaterOrEqual(t, lo, bounds[0], p.Name)
		require.LessOrEqual(t, hi, bounds[1], p.Name)
		require.GreaterOrEqual(t, hi-lo, 0.8*(bounds[1]-bounds[0]), p.Name)
	}
	require.Equal(t, len(within), seen)
	require.Equal(t, c.Params(), count(m))
}
