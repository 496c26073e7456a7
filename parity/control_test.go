package parity

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/model"
)

// One element of any weight, moved by a millionth of the tensor's largest, is seen in float64.
func TestParityNegativeControlWeights(t *testing.T) {
	for _, r := range references {
		want := r.want(t)
		m := r.open(t, lowp.FP64)
		gradients := want[len(want)-len(m.Params()):]
		for n, p := range m.Params() {
			w := p.W.F64()
			largest, at := 0.0, 0
			for i, g := range gradients[n].values { // where the loss depends on it most
				largest = max(largest, math.Abs(w[i]))
				if math.Abs(g) > math.Abs(gradients[n].values[at]) {
					at = i
				}
			}
			keep := w[at]
			w[at] += 1e-6 * largest
			bad := worst(compare(t, r.got(t, m), want))
			w[at] = keep
			require.Greater(t, bad.err, within64, "%s: %s moved and nothing saw it", r.name, p.Name)
		}
		require.LessOrEqual(t, worst(compare(t, r.got(t, m), want)).err, within64, "the weights are back")
	}
}

// constants are edits that change what a model computes, if it has the layer.
var constants = []struct {
	name string
	edit func(*model.Config)
}{
	{"eps", func(c *model.Config) { c.Eps *= 100 }},
	{"least time step", func(c *model.Config) { c.SSM.DTMin *= 1.01 }},
	{"scaling", func(c *model.Config) { c.MoE.Scaling *= 1.001 }},
	{"group score", func(c *model.Config) { c.MoE.GroupTop = min(c.MoE.GroupTop, 1) }},
	{"aux coefficient", func(c *model.Config) { c.MoE.AuxCoeff *= 1.001 }},
	{"z coefficient", func(c *model.Config) { c.MoE.ZCoeff *= 1.001 }},
	{"aux by sequence or batch", func(c *model.Config) {
		c.MoE.Aux = map[string]string{"sequence": "batch", "batch": "sequence"}[c.MoE.Aux]
	}},
	{"MTP factor", func(c *model.Config) { c.MTP.Factor *= 1.001 }},
}

// A constant that is off is seen, in float64 and in float32, by every reference that has it.
func TestParityNegativeControlConstants(t *testing.T) {
	for _, e := range constants {
		seen := 0
		for _, r := range references {
			for _, f := range []lowp.Format{lowp.FP64, lowp.FP32} {
				c := r.config(t)
				e.edit(&c)
				got := r.got(t, r.build(t, c, f))
				if worst(compare(t, got, r.got(t, r.open(t, f)))).err == 0 { // the model does not have it
					continue
				}
				require.Greater(t, worst(compare(t, got, r.want(t))).err, within32, "%s: %s in %s", r.name, e.name, f)
				seen++
			}
		}
		t.Logf("%s: seen %d times", e.name, seen)
		require.GreaterOrEqual(t, seen, 2, e.name)
	}
}

// Without its bias, every router chooses otherwise.
func TestParityNegativeControlBias(t *testing.T) {
	for _, r := range references {
		m := r.open(t, lowp.FP64)
		for _, x := range m.Routers() {
			x.Bias.CopyFrom(device.NewTensor(x.Bias.Format, x.Experts))
		}
		require.Greater(t, worst(compare(t, r.got(t, m), r.want(t))).err, within32, r.name)
	}
}

// The comparison sees a value that is no number, and one sign.
func TestParityNegativeControlValues(t *testing.T) {
	want := []tensor{{"x", []int{2}, []float64{1, -2}}, {"y", []int{1}, []float64{1}}}
	bad := func(x float64) float64 {
		return worst(compare(t, []tensor{{"x", []int{2}, []float64{1, x}}, want[1]}, want)).err
	}
	require.Zero(t, bad(-2))
	require.Equal(t, 2.0, bad(2))
	require.True(t, math.IsNaN(bad(math.NaN())))
	require.False(t, bad(math.NaN()) <= within32)
}
